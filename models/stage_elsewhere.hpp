// A stage of a model whose layers are on another machine: what this one knows of it.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"

#include <memory>
#include <vector>

namespace paceline::models {

/// What a pass would feed it.
class PlannedRows final : public Workspace {
public:
  struct Sequence {
    std::vector<std::uint32_t> pages;
    int start = 0; ///< Position of the first row.
    int rows = 0;
    int logits_from = 0; ///< As SequenceRows::logits_from.
  };
  gpu::Tensor logits() const override { return {}; }
  std::vector<Sequence> sequences;
};

/// `plan` writes down the rows, in PlannedRows; whoever has the workspace sends them there with
/// what it has received, and puts into `left` what comes back. `forward` throws std::logic_error.
class StageElsewhere final : public Model {
public:
  /// config: of the whole model; cached: as other stages keep keys and values; device: elsewhere.
  StageElsewhere(const ModelConfig& config, LayerRange layers, gpu::DType cached, ModelInfo info,
                 std::shared_ptr<gpu::Device> device);

  const LayerRange& layers() const { return layers_; }
  /// As the machine that has it describes it.
  std::shared_ptr<const Model> with_info(ModelInfo info) const;

  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return vocabulary_; }
  gpu::KvShape kv_shape(int page_tokens) const override;
  int page_tokens_multiple() const override { return 2; }
  int window() const override { return window_; }
  gpu::Device& device() const override { return *device_; }
  int handed_on() const override { return hidden_; }
  bool leaves_wanted() const override { return leaves_wanted_; }
  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override;
  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override;
  void forward(gpu::Operations& operations, Workspace& workspace) const override;

private:
  LayerRange layers_;
  gpu::KvLayout pages_; ///< Of a page of any size.
  int vocabulary_;
  int hidden_;
  int window_;
  bool leaves_wanted_;
  ModelInfo info_;
  std::shared_ptr<gpu::Device> device_;
};

} // namespace paceline::models
