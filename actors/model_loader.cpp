#include "actors/model_loader.hpp"

#include "actors/other_machines.hpp"
#include "models/sources.hpp"
#include "models/staged_model.hpp"

#include <algorithm>

namespace paceline::actors {

ModelInfo LoadedModel::info(const std::string& name) const {
  models::Stages stages{model};
  stages.insert(stages.end(), behind.begin(), behind.end());
  ModelInfo info = models::info_of(stages);
  info.name = name;
  return info;
}

bool LoadedModel::is_here() const {
  return std::ranges::none_of(behind,
                              [](const auto& stage) { return stage->device().elsewhere(); });
}

double LoadedModel::step_bytes() const {
  const auto of = [](const models::Model& stage) {
    const models::ExpertWeights experts = stage.expert_weights();
    double skipped = 0;
    for (const auto& weight : experts.weights)
      skipped += (1 - experts.share) * double(weight->bytes());
    return double(stage.info().weight_bytes) - skipped;
  };
  double bytes = of(*model);
  for (const auto& stage : behind)
    bytes += of(*stage);
  return bytes;
}

Result<std::shared_ptr<gpu::Device>> ModelLoader::open_device(const std::string& name,
                                                              int threads) const {
  if (is_node_device(name))
    return open_node_device(name);
  gpu::DeviceOptions how;
  how.threads = threads;
  how.time = time_;
  how.trace = trace_;
  how.log = base::Log(options_.log);
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

/// Opens devices; in groups, if the model is in shards.
Result<models::Devices> ModelLoader::open_devices(const std::vector<std::string>& names,
                                                  const std::string& role) const {
  const bool is_target = role == "target";
  const auto shards = std::size_t(shards_of(role));
  models::Devices devices;
  models::Devices group;
  for (const std::string& name : names) {
    auto opened = open_device(name, is_target ? options_.threads : 0);
    if (!opened)
      return tl::unexpected(opened.error());
    group.push_back(std::move(*opened));
    if (group.size() < shards)
      continue;
    auto whole = shards > 1 ? group.front()->make_group(group) : group.front();
    if (!whole)
      return tl::unexpected(whole.error());
    devices.push_back(std::move(*whole));
    group.clear();
  }
  return devices;
}

namespace {

/// Makes one model of a draft's stages, on a group of their devices.
Result<LoadedModel> put_in_turn(LoadedModel draft, models::Stages stages,
                                const models::Devices& devices) {
  return devices.front()->make_group(devices, gpu::GroupWork::in_turn).map([&](auto&& group) {
    draft.device = group;
    draft.model = models::make_staged(std::move(stages), std::move(group));
    return std::move(draft);
  });
}

} // namespace

Result<LoadedModel> ModelLoader::load(const std::string& name, const std::string& role,
                                      const std::vector<std::string>& devices) const {
  if (options_.stop.stop_requested())
    return fail(ErrorCode::cancelled, "loading was cancelled");
  LoadedModel loaded;
  models::Devices on;
  return open_devices(devices, role)
      .and_then([&](models::Devices&& opened) {
        on = std::move(opened);
        return models::open_checkpoint(name, role);
      })
      .and_then([&](auto&& source) {
        loaded.source = std::move(source);
        return loaded.source->tokenizer();
      })
      .and_then([&](auto&& tokenizer) {
        loaded.tokenizer = std::move(tokenizer);
        return models::load_model(*loaded.source, on, load_options(role));
      })
      .and_then([&](models::Stages&& stages) -> Result<LoadedModel> {
        if (role == "draft" && stages.size() > 1)
          return put_in_turn(std::move(loaded), std::move(stages), on);
        for (const auto& stage : stages)
          if (role == "target" && options_.prefill == Prefill::fast)
            if (auto ready = stage->prepare_fast_prefill(options_.prefill_chunk); !ready)
              return tl::unexpected(ready.error());
        loaded.device = on.front();
        loaded.model = stages.front();
        loaded.behind.assign(stages.begin() + 1, stages.end());
        return std::move(loaded);
      });
}

} // namespace paceline::actors
