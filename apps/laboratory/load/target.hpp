// What load is put on: an engine in this process, or a server.
#pragma once

#include "apps/laboratory/load/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

/// What became known of a request.
struct Event {
  enum class Kind {
    tokens, ///< A part of the answer came, with one token or more.
    done,
    failed,
  };
  Kind kind = Kind::tokens;
  std::size_t item = 0;
  double seconds = 0;       ///< By the target's clock.
  int prompt_tokens = 0;    ///< Of `done`, as the target counts them;
  int output_tokens = 0;    ///< as this.
  std::uint64_t rounds = 0; ///< Of `done`: target steps that committed its tokens; 0: not known.
  std::string reason = {};  ///< Of `failed`.
};

/// What a target says of itself; counters since it began.
struct TargetState {
  double running = 0;
  double waiting = 0;
  double preemptions = 0;
  double judged = 0; ///< Drafted tokens, accepted ones among them.
  double accepted = 0;
  double window_tokens = 0; ///< Rows of drafted tokens in target steps; 0: not known.
  std::vector<double> accepted_by_position;
};

/// Threads: one, but for `wake`.
class Target {
public:
  virtual ~Target() = default;

  /// What look-ups heard in earlier runs is not found in this one, where the target can be told so.
  virtual void begin_run() {}
  /// Seconds, by the clock of all it says.
  virtual double now() const = 0;
  /// item: how events name it; `what` must live until its last event.
  virtual void send(std::size_t item, const Item& what) = 0;
  /// Waits for the next event; none: `until` came first, somebody called `wake`, or nothing can
  /// come any more.
  virtual std::optional<Event> next(std::optional<double> until) = 0;
  /// Ends a `next` soon. Threads: any.
  virtual void wake() = 0;
  /// Gives up all that is under way; no event of it comes any more.
  virtual void cancel() = 0;
  /// Brings `state` up to date where that takes asking; may take a moment.
  virtual void refresh_state() {}
  /// As it was known last; none: the target does not say.
  virtual std::optional<TargetState> state() = 0;
};

} // namespace paceline::apps::load
