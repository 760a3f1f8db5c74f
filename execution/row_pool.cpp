#include "execution/row_pool.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

namespace paceline::execution {
namespace {

constexpr std::size_t rows_per_slab = 16;

} // namespace

RowPool::RowPool(Config config)
    : config_([&] {
        if (!config.reader)
          config.reader = config.writer;
        return std::move(config);
      }()) {}

speculation::QRow RowPool::take(std::size_t spare) {
  const std::lock_guard lock(mutex_);
  if (lent_ + spare >= config_.rows_max)
    return nullptr;
  Slab* const slab = slab_with_room();
  if (!slab)
    return nullptr;
  float* row = slab->free.back();
  slab->free.pop_back();
  ++lent_;
  return {row, [pool = shared_from_this()](float* used) { pool->give_back(used); }};
}

RowPool::Slab* RowPool::slab_with_room() {
  const auto found = std::ranges::find_if(slabs_, [](const Slab& s) { return !s.free.empty(); });
  if (found != slabs_.end())
    return &*found;
  const std::size_t rows = std::min(rows_per_slab, config_.rows_max - allocated_);
  auto memory = gpu::allocate_between(*config_.writer, *config_.reader,
                                      sizeof(float) * rows * std::size_t(config_.row_length));
  if (!memory)
    return nullptr;
  Slab slab{*memory, (*memory)->tensor(int(rows), config_.row_length), {}};
  for (int r = slab.rows.rows; r-- > 0;)
    slab.free.push_back(slab.rows.row(r));
  allocated_ += rows;
  slabs_.push_back(std::move(slab));
  return &slabs_.back();
}

std::size_t RowPool::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

void RowPool::give_back(float* row) {
  std::vector<Slab> unused; // Destroyed outside the lock.
  const std::lock_guard lock(mutex_);
  const auto home = std::ranges::find_if(slabs_, [row](const Slab& s) {
    return std::less_equal<>()(s.rows.data, row) && std::less<>()(row, s.rows.row(s.rows.rows));
  });
  assert(home != slabs_.end() && lent_ > 0);
  home->free.push_back(row);
  --lent_;
  if (home->whole())
    shrink(unused);
}

void RowPool::shrink(std::vector<Slab>& unused) {
  for (std::size_t i = slabs_.size(); i-- > 0;) {
    const std::size_t left = allocated_ - slabs_[i].free.size();
    if (!slabs_[i].whole() || left < 2 * lent_ + rows_per_slab)
      continue;
    allocated_ = left;
    unused.push_back(std::move(slabs_[i]));
    slabs_.erase(slabs_.begin() + std::ptrdiff_t(i));
  }
}

} // namespace paceline::execution
