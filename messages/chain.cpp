#include "messages/chain.hpp"

#include <algorithm>

namespace paceline::messages {

void Chain::begin(int start, int window_end, int limit) {
  start_ = start;
  window_end_.store(window_end, std::memory_order_relaxed);
  limit_.store(limit, std::memory_order_relaxed);
  bound_.store(start, std::memory_order_relaxed);
  end_.store(nobody, std::memory_order_relaxed);
  drawn_.store(start, std::memory_order_release);
}

int Chain::next() const {
  const int position = drawn_.load(std::memory_order_relaxed);
  if (closed() || position >= std::min(limit(), end_.load(std::memory_order_relaxed)))
    return -1;
  return position;
}

void Chain::bind(int end) {
  assert(end > drawn_.load(std::memory_order_relaxed));
  bound_.store(end, std::memory_order_seq_cst);
}

void Chain::put(int position, TokenId token, QRow q) {
  assert(position == drawn_.load(std::memory_order_relaxed));
  assert(position < bound_.load(std::memory_order_relaxed));
  slots_[std::size_t(position) % slots_.size()] = {token, std::move(q)};
  drawn_.store(position + 1, std::memory_order_seq_cst);
  announce();
}

void Chain::end_at(int position) {
  end_.store(position, std::memory_order_seq_cst);
  announce();
}

int Chain::bound() const {
  return std::min(bound_.load(std::memory_order_seq_cst), end_.load(std::memory_order_seq_cst));
}

void Chain::extend(int window_end, int limit) {
  window_end_.store(window_end, std::memory_order_release);
  limit_.store(limit, std::memory_order_release);
}

// The writer stores `drawn` and then reads `notify_position`; notify_at stores `notify_position`
// and then reads `drawn` (both sequentially consistent), so at least one of them sees the other.
void Chain::announce() {
  if (!settled(notify_position_.load(std::memory_order_seq_cst)))
    return;
  std::shared_ptr<Gate> gate;
  {
    const std::lock_guard lock(gate_mutex_);
    if (!settled(notify_position_.load(std::memory_order_relaxed)))
      return;
    notify_position_.store(nobody, std::memory_order_relaxed);
    gate = std::move(gate_);
    gate_ = nullptr;
  }
  if (gate)
    gate->arrive();
}

// The gate that was replaced is let go of outside the lock: what it holds is not ours.
void Chain::notify_at(int position, std::shared_ptr<Gate> gate) {
  {
    const std::lock_guard lock(gate_mutex_);
    gate_.swap(gate);
    notify_position_.store(position, std::memory_order_seq_cst);
  }
  announce();
}

} // namespace paceline::messages
