// What a stage of the target runs its part of a pass with.
#pragma once

#include "execution/row_pool.hpp"
#include "gpu/kv_pool.hpp"
#include "models/model.hpp"

#include <cstddef>
#include <memory>

namespace paceline::execution {

/// The only stage of a model on one device, or one of several.
struct Stage {
  std::size_t number = 0; ///< In the order in which a pass goes through them.
  std::shared_ptr<const models::Model> model;
  /// The memory of its layers' keys and values. The first stage's numbers the pages of all.
  std::shared_ptr<gpu::KvPool> pool;
  std::shared_ptr<models::Workspace> workspace;
  /// Each of its rows has room for what all rows of a pass leave for the next stage; null: it is
  /// the last.
  std::shared_ptr<RowPool> left;
};

} // namespace paceline::execution
