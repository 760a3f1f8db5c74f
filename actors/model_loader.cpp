#include "actors/model_loader.hpp"

#include "models/sources.hpp"

namespace paceline::actors {

ModelInfo LoadedModel::info(const std::string& name) const {
  ModelInfo info = model->info();
  info.name = name;
  return info;
}

Result<std::shared_ptr<gpu::Device>> ModelLoader::open_device(const std::string& name,
                                                              int threads) const {
  gpu::DeviceOptions how;
  how.threads = threads;
  how.time = time_;
  how.trace = trace_;
  return gpu::open_device(name, how);
}

Result<LoadedModel> ModelLoader::load(const std::string& name, const std::string& role,
                                      const std::string& device, int threads) const {
  LoadedModel loaded;
  models::LoadOptions how = models::load_formats(options_, role);
  how.progress = options_.progress;
  if (options_.max_model_len > 0)
    how.max_positions = options_.max_model_len;
  if (role == "target")
    how.positions_needed = options_.max_model_len;
  return open_device(device, threads)
      .and_then([&](auto opened) {
        loaded.device = std::move(opened);
        return models::open_checkpoint(name, role);
      })
      .and_then([&](auto source) {
        loaded.source = std::move(source);
        return loaded.source->tokenizer();
      })
      .and_then([&](auto tokenizer) {
        loaded.tokenizer = std::move(tokenizer);
        return loaded.source->load(loaded.device, how);
      })
      .map([&](auto model) {
        loaded.model = std::move(model);
        return std::move(loaded);
      });
}

Result<LoadedModel> ModelLoader::load_target(const std::string& device) const {
  auto target = load(options_.target, "target", device, options_.threads);
  if (target && options_.prefill == Prefill::fast)
    if (auto ready = target->model->prepare_fast_prefill(options_.prefill_chunk); !ready)
      return tl::unexpected(ready.error());
  return target;
}

} // namespace paceline::actors
