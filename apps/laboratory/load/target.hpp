// The target of a load: an engine in this process, or a server.
#pragma once

#include "apps/laboratory/load/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

/// News of a request.
struct Event {
  enum class Kind {
    tokens, ///< A part of the answer came, with one token or more.
    done,
    failed,
  };
  Kind kind = Kind::tokens;
  std::size_t item = 0;
  double seconds = 0;       ///< Time by the target's clock.
  int prompt_tokens = 0;    ///< Set in `done`, as the target counts them.
  int output_tokens = 0;    ///< Set in `done`, too.
  std::uint64_t rounds = 0; ///< Set in `done`: target steps that committed tokens; 0: not known.
  std::string reason = {};  ///< Set in `failed`.
};

/// Numbers that a target reports about itself; the counters count since it began.
struct TargetState {
  double running = 0;
  double waiting = 0;
  double preemptions = 0;
  double judged = 0; ///< Drafted tokens that were judged, with the accepted ones.
  double accepted = 0;
  double window_tokens = 0; ///< Rows of drafted tokens in target steps; 0: not known.
  std::vector<double> accepted_by_position;
};

/// A target of load. Threads: one, except in `wake`.
class Target {
public:
  virtual ~Target() = default;

  /// Begins a run. A target that can keep runs apart lets look-ups find nothing of earlier ones.
  virtual void begin_run() {}
  /// Returns seconds, by the clock of all its events.
  virtual double now() const = 0;
  /// Sends a request. item: its number in events; `what` must live until its last event.
  virtual void send(std::size_t item, const Item& what) = 0;
  /// Waits for the next event; none: `until` came first, somebody called `wake`, or nothing can
  /// come any more.
  virtual std::optional<Event> next(std::optional<double> until) = 0;
  /// Ends a `next` soon. Threads: any.
  virtual void wake() = 0;
  /// Gives up all requests under way, which have no more events.
  virtual void cancel() = 0;
  /// Brings `state` up to date if the target must be asked for it; may take a moment.
  virtual void refresh_state() {}
  /// Returns the state as it was last known; none: the target does not report it.
  virtual std::optional<TargetState> state() = 0;
};

} // namespace paceline::apps::load
