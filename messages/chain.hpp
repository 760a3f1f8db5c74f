// A chain: what the draft wrote after one frontier. The only state that actors share.
#pragma once

#include "messages/limits.hpp"
#include "messages/sequence.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace paceline::messages {

/// Opens once everybody it was handed to has arrived; calls back once.
/// The scheduler waits at one gate for all windows of a batch, so that it gets one message.
/// Threads: any.
class Gate {
public:
  Gate(int arrivals, std::function<void()> opened) : left_(arrivals), opened_(std::move(opened)) {}
  void arrive() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      opened_();
  }

private:
  std::atomic<int> left_;
  std::function<void()> opened_;
};

/// A memory row for one position's q; returned to its pool with the last reference.
using QRow = std::shared_ptr<float>;

/// Tokens drafted after one frontier, by absolute position. A miss abandons the chain and begins
/// another one (an object of its own, so that a late writer harms nobody); a hit goes on with it.
///
/// Threads: one writer (the draft's lane: bind, put, end_at, fail), any readers. A position is
/// *bound* before its token is drawn; readers that saw it bound wait until it is drawn, or until
/// the chain has ended before it. That is what keeps `rejection` exact under any timing: whether a
/// position is judged never depends on its own token (docs/theory.md).
class Chain {
public:
  Chain(SequenceId sequence, Epoch epoch) : sequence_(sequence), epoch_(epoch) {}

  SequenceId sequence() const { return sequence_; }
  Epoch epoch() const { return epoch_; }

  /// Once, before the chain is handed to the draft: position of its first token, and how far the
  /// window and the whole lookahead reach (positions, one past the last).
  void begin(int start, int window_end, int limit);
  int start() const { return start_; }

  // The draft's side.
  /// The next position to draw, or -1 when there is none now (limit reached, closed or ended).
  int next() const;
  /// Positions up to `end` (one past) will be drawn next: before the first of them is.
  void bind(int end);
  void put(int position, TokenId token, QRow q);
  /// Nothing will be drawn from `position` on (the draft's context is full, or it failed).
  void end_at(int position);
  /// Lane time spent on this chain's tokens.
  void add_busy(std::chrono::nanoseconds time) {
    busy_.fetch_add(time.count(), std::memory_order_relaxed);
  }

  // Everybody else's side.
  /// One past the last position that is bound (and not cut off by the chain's end).
  int bound() const;
  /// One past the last position whose token is there.
  int drawn() const { return drawn_.load(std::memory_order_acquire); }
  /// Every position before `position` is either drawn or will never be.
  bool settled(int position) const {
    return drawn_.load(std::memory_order_seq_cst) >=
           std::min(position, end_.load(std::memory_order_seq_cst));
  }
  TokenId token(int position) const { return slot(position).token; }
  const float* q(int position) const { return slot(position).q.get(); }
  std::chrono::nanoseconds busy() const {
    return std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed));
  }

  /// Lets the draft go on to here (after a hit).
  void extend(int window_end, int limit);
  int window_end() const { return window_end_.load(std::memory_order_acquire); }
  int limit() const { return limit_.load(std::memory_order_acquire); }
  /// The chain is stale: the draft stops before its next token.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// Calls gate->arrive() once when the chain is settled up to `position`: now, or from the draft's
  /// thread. A later call replaces an earlier one.
  void notify_at(int position, std::shared_ptr<Gate> gate);

private:
  struct Slot {
    TokenId token = 0;
    QRow q;
  };
  const Slot& slot(int position) const { return slots_[std::size_t(position) % slots_.size()]; }
  void announce();

  const SequenceId sequence_;
  const Epoch epoch_;
  int start_ = 0;
  std::atomic<int> window_end_{0};
  std::atomic<int> limit_{0};
  std::atomic<int> bound_{0};
  std::atomic<int> drawn_{0};
  std::atomic<int> end_{nobody};
  std::atomic<bool> closed_{false};
  std::atomic<std::int64_t> busy_{0};
  std::array<Slot, std::size_t(limits::chain_positions)> slots_;

  static constexpr int nobody = 1 << 30;
  std::atomic<int> notify_position_{nobody};
  std::mutex gate_mutex_;
  std::shared_ptr<Gate> gate_;
};
using ChainRef = std::shared_ptr<Chain>;

} // namespace paceline::messages
