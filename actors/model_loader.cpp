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

models::LoadOptions ModelLoader::load_options(const std::string& role) const {
  models::LoadOptions how = models::load_formats(options_, role);
  how.progress = options_.progress;
  if (options_.max_model_len > 0)
    how.max_positions = options_.max_model_len;
  if (role == "target")
    how.positions_needed = options_.max_model_len;
  return how;
}

Result<LoadedModel> ModelLoader::load(const std::string& name, const std::string& role,
                                      const std::string& device, int threads) const {
  LoadedModel loaded;
  const models::LoadOptions how = load_options(role);
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

Result<LoadedModel> ModelLoader::load_self_draft(const LoadedModel& target,
                                                 WeightFormat format) const {
  LoadedModel draft = target;
  if (!options_.draft_device.empty()) {
    auto device = open_device(options_.draft_device, 0);
    if (!device)
      return tl::unexpected(device.error());
    if ((*device)->name() != target.device->name())
      draft.device = std::move(*device);
  }
  models::LoadOptions how = load_options("draft");
  how.blocks = gpu::Quantization{format, options_.weight_scales};
  if (draft.device == target.device || (draft.device->on_host() && target.device->on_host()))
    how.shared = target.model;
  return draft.source->load(draft.device, how).map([&](auto model) {
    draft.model = std::move(model);
    return std::move(draft);
  });
}

Result<models::Eagle3Head> ModelLoader::load_head(const LoadedModel& target,
                                                  std::shared_ptr<gpu::Device> device,
                                                  const std::string& name) const {
  return models::resolve_model_path(models::eagle3_source(name), "eagle3")
      .and_then([&](const std::string& folder) {
        return models::load_eagle3(folder, target.model, std::move(device), load_options("draft"));
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
