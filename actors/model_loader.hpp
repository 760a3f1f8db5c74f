// The loading of models on devices, as an engine's options describe them.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "models/load.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::actors {

class OtherMachines;

struct LoadedModel {
  /// This and the tokenizer are null if it is some layers of a model, or a draft that has the
  /// target's.
  std::shared_ptr<const models::CheckpointSource> source;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const models::Model> model;
  /// Stages behind the first, which is `model` on `device`; empty if the target is not in stages.
  std::vector<std::shared_ptr<const models::Model>> behind;

  bool in_stages() const { return !behind.empty(); }
  /// Whether the model is divided into stages, shards or both, so that no device has all of it.
  bool is_divided() const { return in_stages() || !device->shards().empty(); }
  /// Whether all of it is on this machine.
  bool is_here() const;
  /// Returns the last stage's device.
  gpu::Device& last_device() const { return in_stages() ? behind.back()->device() : *device; }
  /// name: the one that the caller used.
  ModelInfo info(const std::string& name) const;
  /// Returns the bytes of weights that a step of one row reads, as far as they are on this machine;
  /// of layers elsewhere all.
  double step_bytes() const;
  /// Makes the pool of the first stage.
  Result<std::shared_ptr<gpu::KvPool>> make_pool(int page_tokens, std::size_t pages,
                                                 std::size_t states = 0) const {
    return gpu::KvPool::create(*device, model->kv_shape(page_tokens), pages, states);
  }
};

/// Opens devices and loads models on them, all by the same options, clock and trace.
class ModelLoader {
public:
  /// options: must outlive this. trace: null: none. machines: reaches the devices of other machines
  /// that the options name; null: all devices are of this one.
  ModelLoader(const EngineOptions& options, std::shared_ptr<base::Timekeeper> time,
              std::shared_ptr<base::Trace> trace, const OtherMachines* machines = nullptr)
      : options_(options), time_(std::move(time)), trace_(std::move(trace)), machines_(machines) {}

  const EngineOptions& options() const { return options_; }
  const std::shared_ptr<base::Timekeeper>& time() const { return time_; }
  const std::shared_ptr<base::Trace>& trace() const { return trace_; }
  const OtherMachines* machines() const { return machines_; }

  /// threads: threads of a CPU lane; 0: the physical cores.
  Result<std::shared_ptr<gpu::Device>> open_device(const std::string& name, int threads) const;
  /// Returns how a model is loaded for its role, "target" or "draft", on any device.
  models::LoadOptions load_options(const std::string& role) const;
  /// Loads the model that `name` means for its role: a stage on each device or, if the role's
  /// tensor_parallel_size is more than one, on each group of so many. A target is ready for the
  /// engine's way to read prompts; a draft's stages are one model on a group of their devices.
  Result<LoadedModel> load(const std::string& name, const std::string& role,
                           const std::vector<std::string>& devices) const;

private:
  int shards_of(const std::string& role) const {
    return role == "target" ? options_.tensor_parallel_size : options_.draft_tensor_parallel_size;
  }
  Result<std::shared_ptr<gpu::Device>> open_node_device(const std::string& name) const;
  Result<models::Devices> open_devices(const std::vector<std::string>& names,
                                       const std::string& role) const;

  const EngineOptions& options_;
  std::shared_ptr<base::Timekeeper> time_;
  std::shared_ptr<base::Trace> trace_;
  const OtherMachines* machines_;
};

} // namespace paceline::actors
