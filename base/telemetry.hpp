// Counters that any actor or lane adds to and anybody may read, without a message.
#pragma once

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "paceline/engine.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::base {

/// Measures drafting time that lay under target time: it intersects the times in which a lane of
/// the target works with pieces of the draft. Threads: any.
class OverlapMeter {
public:
  struct Sums {
    base::Duration target{};
    base::Duration draft{};
    base::Duration overlapped{};
  };
  /// Called once for each piece of the target; pieces of several stages may overlap.
  void target_began(base::TimePoint at);
  void target_ended(base::TimePoint at);
  void drafted(base::TimePoint begin, base::TimePoint end);
  Sums sums() const;

private:
  struct Interval {
    base::TimePoint begin;
    base::TimePoint end;
  };
  mutable std::mutex mutex_;
  std::deque<Interval> recent_; // a few are enough: a draft piece is reported soon after its end
  int open_ = 0;                ///< Pieces of the target that are running.
  Sums sums_;
};

struct Telemetry {
  std::atomic<int> running{0};
  std::atomic<int> waiting{0};
  std::atomic<std::uint64_t> finished{0};
  std::atomic<std::uint64_t> prompt_tokens{0};
  std::atomic<std::uint64_t> generated_tokens{0};
  std::atomic<std::uint64_t> drafted{0};
  std::atomic<std::uint64_t> forked{0};
  std::atomic<std::uint64_t> passes_behind{0};
  std::atomic<std::uint64_t> judged{0};
  std::atomic<std::uint64_t> accepted{0};
  struct Drafter {
    std::atomic<std::uint64_t> judged{0};
    std::atomic<std::uint64_t> accepted{0};
  };
  std::array<Drafter, 3> by_drafter;
  std::vector<std::string> drafters; ///< Names of the drafters. Set before the first actor starts.
  std::array<std::atomic<std::uint64_t>, 33> accepted_by_position{};
  std::atomic<std::uint64_t> windows{0};
  std::atomic<std::uint64_t> window_tokens{0};
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<std::uint64_t> lookahead_hits{0};
  std::atomic<std::uint64_t> fork_hits{0};
  std::atomic<std::uint64_t> lookahead_rounds{0};
  std::atomic<std::uint64_t> tree_rows{0};
  std::atomic<std::uint64_t> tree_tokens{0};
  std::atomic<std::uint64_t> pre_enqueued_steps{0};
  std::atomic<std::uint64_t> fork_steps{0};
  std::atomic<std::uint64_t> preemptions{0};
  std::atomic<std::uint64_t> restarts{0};
  std::atomic<std::uint64_t> recomputations{0};
  std::atomic<std::uint64_t> stalls{0};
  std::atomic<std::uint64_t> draft_late{0};
  std::atomic<std::uint64_t> draft_pauses{0};
  std::atomic<bool> draft_disabled{false};
  std::atomic<std::uint64_t> drafter_failures{0};
  std::atomic<bool> target_moved{false};
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::int64_t> decode_round_ns{0};
  std::atomic<std::int64_t> decode_lane_ns{0};
  std::atomic<double> step_cost_error{0};
  std::atomic<std::size_t> kv_pages_total{0};
  std::atomic<std::size_t> kv_pages_used{0};
  std::atomic<std::size_t> kv_pages_cached{0};
  std::atomic<std::size_t> kv_pages_quarantined{0}; ///< Count when the cache manager last looked.
  OverlapMeter overlap;

  // Receives spans; null: nobody can want any. Set before the first actor starts.
  std::shared_ptr<base::Trace> trace;
  std::shared_ptr<base::Timekeeper> time;
  base::Log log; ///< Set before the first actor starts.

  Metrics snapshot() const;
};

/// Adds without ordering: these are statistics.
template <class T, class U>
void add(std::atomic<T>& counter, U amount) {
  counter.fetch_add(T(amount), std::memory_order_relaxed);
}

/// Lives as long as a handler runs: counts its message and, if a trace is kept, adds a span for it.
class Handling {
public:
  Handling(Telemetry& telemetry, const char* actor, const char* message);
  ~Handling();
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

private:
  Telemetry& telemetry_;
  const char* actor_;
  const char* message_;
  base::TimePoint begin_;
};

} // namespace paceline::base
