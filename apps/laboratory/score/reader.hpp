// A model that reads a text and returns rows of logits, without actors.
#pragma once

#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "models/model.hpp"

#include <memory>
#include <span>

namespace paceline::apps {

/// Most rows that a reader returns at a time.
inline constexpr int reader_rows = 64;

class Reader {
public:
  /// context: positions that it has memory for. lane: a lane of the model's device, which is on the
  /// host.
  static Result<Reader> open(std::shared_ptr<const models::Model> model,
                             std::shared_ptr<gpu::Lane> lane, int context);

  const models::Model& model() const { return *model_; }
  /// Returns the logits behind each of these tokens, of which the first stands at `start`; the text
  /// before it has been read already. tokens: at most reader_rows. Valid until the next call.
  Result<gpu::Tensor> read(int start, std::span<const TokenId> tokens);

private:
  std::shared_ptr<const models::Model> model_;
  std::shared_ptr<gpu::KvPool> pool_;
  gpu::PageTableRef pages_;
  std::unique_ptr<models::Workspace> workspace_;
  std::shared_ptr<gpu::Lane> lane_; // Destroyed first: its steps use all members above.
};

} // namespace paceline::apps
