#include "actors/model_loader.hpp"

#include "actors/other_machines.hpp"
#include "models/sources.hpp"

#include <iterator>

namespace paceline::actors {

namespace {

/// Adds `more` to a list joined by `separator`, unless it is all of it.
void join(std::string& list, const std::string& more, const char* separator) {
  if (list.empty())
    list = more;
  else if (!more.empty() && list != more)
    list += separator + more;
}

} // namespace

ModelInfo LoadedModel::info(const std::string& name) const {
  ModelInfo info = model->info();
  info.name = name;
  if (!in_stages())
    return info;
  info.stages = {{info.device, info.kernel, info.layers, info.weight_bytes, {}}};
  for (const auto& stage : behind) {
    const ModelInfo& more = stage->info();
    info.stages.push_back(
        {more.device, more.kernel, more.layers, more.weight_bytes, more.crossing_rows});
    info.layers += more.layers;
    info.weight_bytes += more.weight_bytes;
    info.device += "+" + more.device;
    join(info.kernel, more.kernel, "+");
    join(info.weights, more.weights, "+");
    join(info.head_weights, more.head_weights, "+");
  }
  return info;
}

Result<std::shared_ptr<gpu::Device>> ModelLoader::open_device(const std::string& name,
                                                              int threads) const {
  if (is_node_device(name))
    return open_node_device(name);
  gpu::DeviceOptions how;
  how.threads = threads;
  how.time = time_;
  how.trace = trace_;
  return gpu::open_device(name, how);
}

Result<std::shared_ptr<gpu::Device>> ModelLoader::open_node_device(const std::string& name) const {
  if (!machines_)
    return fail(ErrorCode::unsupported, name + " is another machine's, and none is known here",
                "give a device of this machine");
  return open_device("cpu", 1).and_then([&](std::shared_ptr<gpu::Device>&& host) {
    return machines_->open_device(name, std::move(host));
  });
}

models::LoadOptions ModelLoader::load_options(const std::string& role) const {
  models::LoadOptions how = models::load_formats(options_, role);
  how.progress = options_.progress;
  how.log = base::Log(options_.log);
  how.stop = options_.stop;
  if (options_.max_model_len > 0)
    how.max_positions = options_.max_model_len;
  if (role == "target") {
    how.positions_needed = options_.max_model_len;
    how.stage_layers = options_.stage_layers;
  }
  return how;
}

Result<LoadedModel> ModelLoader::load(const std::string& name, const std::string& role,
                                      const std::string& device, int threads) const {
  return open_devices({device}, threads, 1).and_then([&](auto&& devices) {
    return load_on(name, role, std::move(devices));
  });
}

/// Opens devices, in groups of `shards` if that is more than one.
Result<std::vector<std::shared_ptr<gpu::Device>>>
ModelLoader::open_devices(const std::vector<std::string>& names, int threads, int shards) const {
  std::vector<std::shared_ptr<gpu::Device>> devices;
  std::vector<std::shared_ptr<gpu::Device>> group;
  for (const std::string& name : names) {
    auto opened = open_device(name, threads);
    if (!opened)
      return tl::unexpected(opened.error());
    group.push_back(std::move(*opened));
    if (int(group.size()) < shards)
      continue;
    auto whole = shards > 1 ? group.front()->make_group(group) : group.front();
    if (!whole)
      return tl::unexpected(whole.error());
    devices.push_back(std::move(*whole));
    group.clear();
  }
  return devices;
}

Result<LoadedModel> ModelLoader::load_on(const std::string& name, const std::string& role,
                                         std::vector<std::shared_ptr<gpu::Device>> on) const {
  if (options_.stop.stop_requested())
    return fail(ErrorCode::cancelled, "loading was cancelled");
  LoadedModel loaded;
  loaded.device = on.front();
  const models::LoadOptions how = load_options(role);
  return models::open_checkpoint(name, role)
      .and_then([&](auto source) {
        loaded.source = std::move(source);
        return loaded.source->tokenizer();
      })
      .and_then([&](auto tokenizer) {
        loaded.tokenizer = std::move(tokenizer);
        return models::load_model(*loaded.source, on, how);
      })
      .map([&](auto stages) {
        loaded.model = std::move(stages.front());
        loaded.behind.assign(std::move_iterator(stages.begin() + 1),
                             std::move_iterator(stages.end()));
        return std::move(loaded);
      });
}

Result<LoadedModel> ModelLoader::load_part(const std::string& location, const std::string& device,
                                           const models::LoadOptions& how) const {
  LoadedModel loaded;
  return open_device(device, 0)
      .and_then([&](auto opened) {
        loaded.device = std::move(opened);
        return models::open_checkpoint(location, "target");
      })
      .and_then([&](auto source) {
        loaded.source = std::move(source);
        return models::load_model(*loaded.source, {loaded.device}, how);
      })
      .map([&](models::Stages&& stages) {
        loaded.model = std::move(stages.front());
        return std::move(loaded);
      });
}

Result<LoadedModel> ModelLoader::load_self_draft(const LoadedModel& target,
                                                 WeightFormat format) const {
  LoadedModel draft = target;
  draft.behind.clear();
  if (!options_.draft_device.empty()) {
    auto device = open_device(options_.draft_device, 0);
    if (!device)
      return tl::unexpected(device.error());
    if ((*device)->name() != target.device->name())
      draft.device = std::move(*device);
  } else if (const auto shards = target.device->shards(); !shards.empty()) {
    draft.device = shards.front();
  }
  models::LoadOptions how = load_options("draft");
  how.blocks = gpu::Quantization{format, options_.weight_scales};
  const bool one_memory =
      draft.device == target.device || (draft.device->on_host() && target.device->on_host());
  if (one_memory && !target.is_divided())
    how.shared = target.model;
  return models::load_model(*draft.source, {draft.device}, how).map([&](models::Stages&& stages) {
    draft.model = std::move(stages.front());
    return std::move(draft);
  });
}

Result<models::Eagle3Head> ModelLoader::load_head(const LoadedModel& target,
                                                  std::shared_ptr<gpu::Device> device,
                                                  const std::string& name) const {
  return models::load_eagle3(models::eagle3_source(name), target.model, std::move(device),
                             load_options("draft"));
}

Result<LoadedModel> ModelLoader::load_target(const std::vector<std::string>& devices) const {
  auto target =
      open_devices(devices, options_.threads, options_.tensor_parallel_size)
          .and_then([&](auto&& on) { return load_on(options_.target, "target", std::move(on)); });
  if (!target || options_.prefill != Prefill::fast)
    return target;
  if (auto ready = target->model->prepare_fast_prefill(options_.prefill_chunk); !ready)
    return tl::unexpected(ready.error());
  for (const auto& stage : target->behind)
    if (auto ready = stage->prepare_fast_prefill(options_.prefill_chunk); !ready)
      return tl::unexpected(ready.error());
  return target;
}

} // namespace paceline::actors
