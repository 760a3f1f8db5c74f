// A model that reads a text, without actors.
#pragma once

#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "models/model.hpp"

#include <memory>
#include <span>
#include <vector>

namespace paceline::apps {

class Reader {
public:
  /// lane: a lane of the model's device. positions: those that it has memory for. rows: most tokens
  /// that it reads at a time, and logit_rows: most of them whose logits are computed.
  static Result<Reader> open(std::shared_ptr<const models::Model> model,
                             std::shared_ptr<gpu::Lane> lane, int positions, int rows,
                             int logit_rows);

  const models::Model& model() const { return *model_; }
  gpu::Lane& lane() const { return *lane_; }
  /// Reads these tokens `times` times, and returns the seconds of each. start: position of the
  /// first of them; the text before it has been read already. logits_from: the first of them whose
  /// logits are computed. fast: by the fast path, which computes none.
  Result<std::vector<double>> read(int start, std::span<const TokenId> tokens, int logits_from = 0,
                                   int times = 1, bool fast = false);
  /// Returns the logits that were computed last, until the next call of `read`.
  gpu::Tensor logits() const { return workspace_->logits(); }

private:
  std::shared_ptr<const models::Model> model_;
  std::shared_ptr<gpu::KvPool> pool_;
  gpu::PageTableRef pages_;
  std::unique_ptr<models::Workspace> workspace_;
  std::shared_ptr<gpu::Lane> lane_; // Destroyed first: its steps use all members above.
};

} // namespace paceline::apps
