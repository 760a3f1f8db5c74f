#include "models/staged_model.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::models {
namespace {

/// Adds `more` to a list joined by '+', unless it is all of it.
void join(std::string& list, const std::string& more) {
  if (list.empty())
    list = more;
  else if (!more.empty() && list != more)
    list += "+" + more;
}

StageInfo stage_info(const ModelInfo& stage) {
  return {stage.device, stage.kernel, stage.layers, stage.weight_bytes, stage.crossing_rows};
}

struct StagedWorkspace final : Workspace {
  gpu::Tensor logits() const override { return stages.back()->logits(); }

  std::vector<std::unique_ptr<Workspace>> stages;
  std::vector<std::shared_ptr<gpu::Buffer>> between; ///< Rows from each stage to the next.
};

class StagedModel final : public Model {
public:
  StagedModel(std::vector<std::shared_ptr<const Model>> stages, std::shared_ptr<gpu::Device> group)
      : stages_(std::move(stages)), group_(std::move(group)), info_(info_of(stages_)) {
    assert(stages_.size() > 1 && group_->shards().size() == stages_.size());
  }

  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return stages_.back()->vocabulary(); }
  gpu::Device& device() const override { return *group_; }
  int logits_shard() const override { return int(stages_.size()) - 1; }
  double cache_width() const override { return first().cache_width(); }
  int page_tokens_multiple() const override { return first().page_tokens_multiple(); }
  int window() const override { return first().window(); }

  /// Every device has as large a page as the one with most layers.
  gpu::KvShape kv_shape(int page_tokens) const override {
    gpu::KvShape shape{page_tokens};
    for (const auto& stage : stages_)
      shape.token_bytes = std::max(shape.token_bytes, stage->kv_shape(page_tokens).token_bytes);
    shape.shards = int(stages_.size());
    return shape;
  }

  std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const override {
    std::vector<std::shared_ptr<const gpu::Weight>> all;
    for (const auto& stage : stages_) {
      const auto own = stage->step_weights();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  ExpertWeights expert_weights() const override {
    ExpertWeights all;
    for (const auto& stage : stages_) {
      const ExpertWeights own = stage->expert_weights();
      all.weights.insert(all.weights.end(), own.weights.begin(), own.weights.end());
      all.share = own.share;
    }
    return all;
  }

  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override {
    auto space = std::make_unique<StagedWorkspace>();
    for (const auto& stage : stages_) {
      auto own = stage->make_workspace(max_rows, max_logit_rows);
      if (!own)
        return own;
      if (!space->stages.empty())
        if (auto linked = link(*space, **own, max_rows); !linked)
          return tl::unexpected(linked.error());
      space->stages.push_back(std::move(*own));
    }
    return space;
  }

  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override {
    auto& space = static_cast<StagedWorkspace&>(workspace);
    for (std::size_t i = 0; i < stages_.size(); ++i)
      stages_[i]->plan(batch, pool.shard(int(i)), *space.stages[i]);
  }

  void forward(gpu::Operations& operations, Workspace& workspace) const override {
    auto& space = static_cast<StagedWorkspace&>(workspace);
    const gpu::ShardRange here = operations.shards();
    for (int i = 0; i < int(stages_.size()); ++i) {
      if (i > 0)
        operations.meet();
      if (i >= here.first && i < here.end())
        stages_[std::size_t(i)]->forward(operations, *space.stages[std::size_t(i)]);
    }
  }

private:
  const Model& first() const { return *stages_.front(); }

  /// Allocates what the stage made last leaves for the `next` one, where both devices reach it.
  Result<void> link(StagedWorkspace& space, Workspace& next, int max_rows) const {
    const int width = stages_[space.stages.size() - 1]->handed_on();
    const auto bytes = std::size_t(max_rows) * std::size_t(width) * sizeof(float);
    return group_->allocate(bytes).map([&](std::shared_ptr<gpu::Buffer>&& rows) {
      space.stages.back()->left = next.received = rows->tensor(max_rows, width);
      space.between.push_back(std::move(rows));
    });
  }

  const std::vector<std::shared_ptr<const Model>> stages_;
  const std::shared_ptr<gpu::Device> group_;
  const ModelInfo info_;
};

} // namespace

ModelInfo info_of(const std::vector<std::shared_ptr<const Model>>& stages) {
  ModelInfo info = stages.front()->info();
  if (stages.size() == 1)
    return info;
  info.stages = {stage_info(info)};
  for (std::size_t i = 1; i < stages.size(); ++i) {
    const ModelInfo& more = stages[i]->info();
    info.stages.push_back(stage_info(more));
    info.layers += more.layers;
    info.weight_bytes += more.weight_bytes;
    info.device += "+" + more.device;
    join(info.kernel, more.kernel);
    join(info.weights, more.weights);
    join(info.head_weights, more.head_weights);
    if (info.activations.empty())
      info.activations = more.activations;
    if (info.kv_cache_dtype.empty())
      info.kv_cache_dtype = more.kv_cache_dtype;
  }
  return info;
}

std::shared_ptr<const Model> make_staged(std::vector<std::shared_ptr<const Model>> stages,
                                         std::shared_ptr<gpu::Device> group) {
  return std::make_shared<const StagedModel>(std::move(stages), std::move(group));
}

} // namespace paceline::models
