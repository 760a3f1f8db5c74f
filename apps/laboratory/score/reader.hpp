// A model that reads a text, row of logits by row: no actors.
#pragma once

#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "models/model.hpp"

#include <memory>
#include <span>

namespace paceline::apps {

/// Rows that a reader gives at a time, at most.
inline constexpr int reader_rows = 64;

class Reader {
public:
  /// context: positions that it has memory for. lane: on the model's device, which is on the host.
  static Result<Reader> open(std::shared_ptr<const models::Model> model,
                             std::shared_ptr<gpu::Lane> lane, int context);

  const models::Model& model() const { return *model_; }
  /// Logits behind each of these tokens, of which the first stands at `start`; what stands before
  /// it has been read. tokens: at most reader_rows. Valid until the next call.
  Result<gpu::Tensor> read(int start, std::span<const TokenId> tokens);

private:
  std::shared_ptr<const models::Model> model_;
  std::shared_ptr<gpu::KvPool> pool_;
  gpu::PageTableRef pages_;
  std::unique_ptr<models::Workspace> workspace_;
  std::shared_ptr<gpu::Lane> lane_; // goes first: its steps use all of the above
};

} // namespace paceline::apps
