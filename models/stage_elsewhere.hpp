// A stage of a model whose layers are on another machine, as this one knows it.
#pragma once

#include "models/layer_range.hpp"
#include "models/model.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace paceline::models {

/// The rows that a pass would feed to the stage.
class PlannedRows final : public Workspace {
public:
  struct Sequence {
    std::vector<std::uint32_t> pages;
    int start = 0; ///< Position of the first row.
    int rows = 0;
    int logits_from = 0; ///< Same as SequenceRows::logits_from.
  };
  gpu::Tensor logits() const override { return {}; }
  std::vector<Sequence> sequences;
};

/// A stage that computes nothing here. `plan` writes down the rows, in PlannedRows; the workspace's
/// owner sends them to the other machine with the rows received, and puts the answer into `left`.
/// `forward` throws std::logic_error.
class StageElsewhere final : public Model {
public:
  /// The facts about its layers that other code needs.
  struct Shape {
    LayerRange layers;
    std::size_t token_bytes = 0; ///< Bytes of a token slot in its pages.
    int vocabulary = 0;
    int handed_on = 0; ///< Floats of a row, in and out.
    int window = 0;    ///< Model::window
    bool leaves_wanted = false;
  };
  /// device: must be elsewhere.
  StageElsewhere(Shape shape, ModelInfo info, std::shared_ptr<gpu::Device> device)
      : shape_(shape), info_(std::move(info)), device_(std::move(device)) {}

  const LayerRange& layers() const { return shape_.layers; }
  /// Returns the stage with the description that its machine gives.
  std::shared_ptr<const Model> with_info(ModelInfo info) const;

  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return shape_.vocabulary; }
  gpu::KvShape kv_shape(int page_tokens) const override;
  int page_tokens_multiple() const override { return 2; }
  int window() const override { return shape_.window; }
  gpu::Device& device() const override { return *device_; }
  int handed_on() const override { return shape_.handed_on; }
  bool leaves_wanted() const override { return shape_.leaves_wanted; }
  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override;
  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override;
  void forward(gpu::Operations& operations, Workspace& workspace) const override;

private:
  Shape shape_;
  ModelInfo info_;
  std::shared_ptr<gpu::Device> device_;
};

} // namespace paceline::models
