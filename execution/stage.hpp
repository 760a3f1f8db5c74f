// The objects with which a stage of the target runs its part of a pass.
#pragma once

#include "execution/row_pool.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "models/model.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace paceline::execution {

/// The only stage of a model on one device, or one of several.
struct Stage {
  std::size_t number = 0; ///< Place in the order in which a pass goes through the stages.
  std::shared_ptr<const models::Model> model;
  /// The memory of its layers' keys and values. A stage without any has the first stage's pool,
  /// which numbers the pages of all stages.
  std::shared_ptr<gpu::KvPool> pool;
  std::shared_ptr<models::Workspace> workspace;
  /// Each of its rows has room for what all rows of a pass leave for the next stage; null: this is
  /// the last stage.
  std::shared_ptr<RowPool> left;

  bool has_pages() const { return model->kv_shape(pool->shape().page_tokens).bytes() > 0; }
};

/// Copies pages on all shards of the stage; every rank of a step calls it before the pass.
inline void copy_pages(gpu::Operations& operations, const gpu::KvPool& pool,
                       std::span<const gpu::PageCopy> copies) {
  const gpu::ShardRange here = operations.shards();
  for (int shard = here.first; shard < here.end() && !copies.empty(); ++shard)
    operations.copy_pages(pool.shard(shard), copies);
}

} // namespace paceline::execution
