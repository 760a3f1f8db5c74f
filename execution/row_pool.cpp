#include "execution/row_pool.hpp"

namespace paceline::execution {
namespace {

constexpr int rows_per_slab = 16;

} // namespace

speculation::QRow RowPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    auto slab = gpu::allocate_between(
        *writer_, *reader_, sizeof(float) * std::size_t(rows_per_slab) * std::size_t(row_length_));
    if (!slab)
      return nullptr;
    const gpu::Tensor rows = (*slab)->tensor(rows_per_slab, row_length_);
    for (int r = 0; r < rows_per_slab; ++r)
      free_.push_back(rows.row(r));
    slabs_.push_back(std::move(*slab));
  }
  float* row = free_.back();
  free_.pop_back();
  return {row, [pool = shared_from_this()](float* used) { pool->give_back(used); }};
}

void RowPool::give_back(float* row) {
  const std::lock_guard lock(mutex_);
  free_.push_back(row);
}

} // namespace paceline::execution
