// The loading of models on devices, as an engine's options describe them.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "models/eagle3.hpp"
#include "models/load.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <string>

namespace paceline::actors {

class OtherMachines;

struct LoadedModel {
  std::shared_ptr<const models::CheckpointSource> source;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const models::Model> model;
  /// Stages behind the first, which is `model` on `device`; empty if the target is not in stages.
  std::vector<std::shared_ptr<const models::Model>> behind;

  bool in_stages() const { return !behind.empty(); }
  /// Whether the model is divided into stages, shards or both, so that no device has all of it.
  bool is_divided() const { return in_stages() || !device->shards().empty(); }
  /// Returns the last stage's device.
  gpu::Device& last_device() const { return in_stages() ? behind.back()->device() : *device; }
  /// name: the one that the caller used.
  ModelInfo info(const std::string& name) const;
  /// Makes the pool of the first stage.
  Result<std::shared_ptr<gpu::KvPool>> make_pool(int page_tokens, std::size_t pages) const {
    return gpu::KvPool::create(*device, model->kv_shape(page_tokens), pages);
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
  /// Returns how the target is loaded, on any device.
  models::LoadOptions target_options() const { return load_options("target"); }
  /// Loads a model on one device. role: "target" or "draft", for names that mean a pair.
  Result<LoadedModel> load(const std::string& name, const std::string& role,
                           const std::string& device, int threads) const;
  /// Loads only the layers LoadOptions::only of the model at `location`, without a tokenizer.
  Result<LoadedModel> load_part(const std::string& location, const std::string& device,
                                const models::LoadOptions& how) const;
  /// Loads the target once more with its blocks in `format`, to draft for it: on its own device
  /// unless EngineOptions::draft_device is another. All other weights are the target's if both use
  /// one memory.
  Result<LoadedModel> load_self_draft(const LoadedModel& target, WeightFormat format) const;
  /// Loads the head on the target that EngineOptions::drafters names, on a device that uses the
  /// target's memory.
  Result<models::Eagle3Head> load_head(const LoadedModel& target,
                                       std::shared_ptr<gpu::Device> device,
                                       const std::string& name) const;
  /// Loads the target on these devices, with a stage on each or, if
  /// EngineOptions::tensor_parallel_size is more than one, on each group of so many, ready for the
  /// engine's way to read prompts.
  Result<LoadedModel> load_target(const std::vector<std::string>& devices) const;

private:
  Result<std::shared_ptr<gpu::Device>> open_node_device(const std::string& name) const;
  models::LoadOptions load_options(const std::string& role) const;
  Result<std::vector<std::shared_ptr<gpu::Device>>>
  open_devices(const std::vector<std::string>& names, int threads, int shards) const;
  Result<LoadedModel> load_on(const std::string& name, const std::string& role,
                              std::vector<std::shared_ptr<gpu::Device>> devices) const;

  const EngineOptions& options_;
  std::shared_ptr<base::Timekeeper> time_;
  std::shared_ptr<base::Trace> trace_;
  const OtherMachines* machines_;
};

} // namespace paceline::actors
