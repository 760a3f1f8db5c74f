// Spans of work in Chrome's trace format (chrome://tracing, ui.perfetto.dev): one row per lane and
// per actor. Absent (a null pointer) unless the user asks for it.
#pragma once

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::base {

/// Threads: `span` from any. Names are any UTF-8; rows appear in order of first use.
class Trace {
public:
  /// Events beyond `events_max` are dropped and counted.
  explicit Trace(std::size_t events_max = limits::trace_events_max) : events_max_(events_max) {}

  /// args: a JSON object's inside (`"rows":8`), or empty.
  void span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
            std::string args = {});
  /// As `write_file` does it: no half-written file is left.
  Result<void> write(const std::string& path) const;

private:
  void write(std::FILE* out) const;
  struct Event {
    int row;
    std::string name;
    TimePoint begin;
    TimePoint end;
    std::string args;
  };
  const std::size_t events_max_;
  mutable std::mutex mutex_;
  std::vector<std::string> rows_;
  std::vector<Event> events_;
  std::uint64_t dropped_ = 0;
};

} // namespace paceline::base
