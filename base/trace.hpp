// Spans of work in Chrome's trace format (chrome://tracing, ui.perfetto.dev), with a row per lane
// and per actor, and a process per machine. Null unless the user asks for a trace.
#pragma once

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "base/remote_clock.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::base {

/// Collects spans. Threads: `span` from any. Names are any UTF-8; rows appear in order of first
/// use.
class Trace {
public:
  /// Events beyond `events_max` are dropped and counted.
  explicit Trace(std::size_t events_max = limits::trace_events_max) : events_max_(events_max) {}

  /// args: the inside of a JSON object (`"rows":8`), or empty.
  void span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
            std::string args = {});
  /// Adds a span of another machine. Both times are by this machine's clock.
  void span_there(const std::string& machine, const std::string& row, const std::string& name,
                  TimePoint begin, TimePoint end);
  /// Says how far that machine's clock is from this one's. The file has the last estimate, and the
  /// largest of the uncertainties.
  void set_clock(const std::string& machine, const RemoteClock::Estimate& clock);
  /// Writes the file as `write_file` does: nobody finds half of it.
  Result<void> write(const std::string& path) const;

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
};

} // namespace paceline::base
