// The loading of a model: a source is read, divided, packed for devices and made into stages.
#pragma once

#include "models/checkpoint/source.hpp"
#include "models/load_options.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

using Devices = std::vector<std::shared_ptr<gpu::Device>>;
/// A model, or its stages in the order in which a pass goes through them. A pass over all of them
/// gives the same bits as the model on one such device.
using Stages = std::vector<std::shared_ptr<const Model>>;

/// Loads the model that `source` has: a stage on each device, divided among the shards of a device
/// that is a group. Stages of devices elsewhere are StageElsewhere. If the last device is
/// elsewhere, the final norm and the head are one stage more, on the last device that is not. The
/// first device must be on this machine.
Result<Stages> load_model(const CheckpointSource& source, Devices devices,
                          const LoadOptions& options);

/// Loads a transformer likewise, with a configuration and tensors that were read from `location`.
Result<Stages> load_transformer(const std::string& location, ModelConfig config,
                                std::unique_ptr<TensorSource> tensors, Devices devices,
                                const LoadOptions& options);

/// Returns the formats that an engine's options give the model of `role`, "target" or "draft".
LoadOptions load_formats(const EngineOptions& options, const std::string& role);

/// Returns options in which a draft's rows, keys and values are of 8 bits if the options leave that
/// open and all devices are faster with it. Loading begins with this.
LoadOptions settled(LoadOptions options, const Devices& devices);

} // namespace paceline::models
