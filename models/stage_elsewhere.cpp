#include "models/stage_elsewhere.hpp"

#include <stdexcept>
#include <utility>

namespace paceline::models {

std::shared_ptr<const Model> StageElsewhere::with_info(ModelInfo info) const {
  auto copy = std::make_shared<StageElsewhere>(*this);
  copy->info_ = std::move(info);
  return copy;
}

gpu::KvShape StageElsewhere::kv_shape(int page_tokens) const {
  return {page_tokens, shape_.token_bytes, 0, 1};
}

Result<std::unique_ptr<Workspace>> StageElsewhere::make_workspace(int /*max_rows*/,
                                                                  int /*max_logit_rows*/) const {
  return std::make_unique<PlannedRows>();
}

void StageElsewhere::plan(std::span<const SequenceRows> batch, const gpu::KvPool& /*pool*/,
                          Workspace& workspace) const {
  auto& planned = dynamic_cast<PlannedRows&>(workspace).sequences;
  planned.clear();
  for (const SequenceRows& rows : batch)
    planned.push_back(
        {{rows.pages.begin(), rows.pages.end()}, rows.start, rows.rows(), rows.logits_from});
}

void StageElsewhere::forward(gpu::Operations& /*operations*/, Workspace& /*workspace*/) const {
  throw std::logic_error("a stage on another machine was run here");
}

} // namespace paceline::models
