// Spans of work: for a file in Chrome's trace format (chrome://tracing, ui.perfetto.dev), with a
// row per lane and per actor, and a process per machine; and for whoever watches the lanes
// meanwhile.
#pragma once

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "base/remote_clock.hpp"
#include "paceline/error.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::base {

/// A lane's span, as those see it who watch.
struct LaneWork {
  std::string lane; ///< With the name of its machine before it, unless that is this one.
  std::string name;
  TimePoint begin;
  TimePoint end;
  std::string args; ///< The inside of a JSON object, or empty.
};

/// The spans that have come since somebody looked last. Threads: any.
class LaneWorkQueue {
public:
  /// The oldest beyond so many are dropped and counted.
  explicit LaneWorkQueue(std::size_t most) : most_(most) {}
  void add(LaneWork work);
  std::vector<LaneWork> take();
  std::uint64_t lost() const;

private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::deque<LaneWork> works_;
  std::uint64_t lost_ = 0;
};

/// Collects spans. Threads: any. Names are any UTF-8; rows appear in order of first use.
class Trace {
public:
  /// Events beyond `events_max` are dropped and counted. 0: it keeps none, and only shows those of
  /// lanes to whoever watches.
  explicit Trace(std::size_t events_max = limits::trace_events_max) : events_max_(events_max) {}

  /// Whether events are kept for a file.
  bool keeps() const { return events_max_ > 0; }
  /// Whether lanes' spans are kept or watched. What serves them alone is not worth doing else.
  bool wanted() const { return keeps() || watchers_.load(std::memory_order_relaxed) > 0; }

  /// args: the inside of a JSON object (`"rows":8`), or empty.
  void span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
            std::string args = {});
  /// The same for a span of a lane, which those who watch see, too.
  void lane_span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
                 std::string args = {});
  /// Adds a span of another machine's lane. Both times are by this machine's clock.
  void span_there(const std::string& machine, const std::string& row, const std::string& name,
                  TimePoint begin, TimePoint end);
  /// Says how far that machine's clock is from this one's. The file has the last estimate, and the
  /// largest of the uncertainties.
  void set_clock(const std::string& machine, const RemoteClock::Estimate& clock);
  /// Writes the file as `write_file` does: nobody finds half of it.
  Result<void> write(const std::string& path) const;

  /// Puts lanes' spans into the queue, too, from now until `unwatch`.
  void watch(std::shared_ptr<LaneWorkQueue> queue);
  void unwatch(const std::shared_ptr<LaneWorkQueue>& queue);

private:
  struct Machine {
    std::string name;
    std::optional<RemoteClock::Estimate> clock; ///< None: this machine.
    Duration uncertainty_max{};
  };
  struct Row {
    int machine;
    std::string name;
    bool operator==(const Row&) const = default;
  };
  void write(std::FILE* out) const;
  std::string clocks() const;
  int machine_of(const std::string& name);
  void add(int machine, const std::string& row, const std::string& name, TimePoint begin,
           TimePoint end, std::string args);
  void show(const LaneWork& work) const;
  struct Event {
    int row;
    std::string name;
    TimePoint begin;
    TimePoint end;
    std::string args;
  };
  const std::size_t events_max_;
  mutable std::mutex mutex_;
  std::vector<Machine> machines_{{.name = "paceline", .clock = {}}};
  std::vector<Row> rows_;
  std::vector<Event> events_;
  std::uint64_t dropped_ = 0;
  std::vector<std::shared_ptr<LaneWorkQueue>> queues_;
  std::atomic<int> watchers_{0}; ///< Their number, for those who do not lock.
};

} // namespace paceline::base
