// Decides whether a step waits for windows, and for how long.
#pragma once

#include "scheduling/actions.hpp"
#include "scheduling/draft_planning.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace paceline::scheduling {

/// Decides what a step that could begin waits for. It looks at counts of bound positions only: a
/// token's value never decides whether it is judged (docs/theory.md).
class WindowWaits {
public:
  WindowWaits(Sequences& sequences, const SchedulerConfig& config, const DraftPlanning& planning,
              DraftHealth& health)
      : sequences_(sequences), config_(config), planning_(planning), health_(health) {}

  /// Says whether a sequence could be in a step now whose window is not waited for.
  bool any_ready(base::TimePoint now) const;
  /// Says whether the sequence's tokens have to repeat, and its window is not all there.
  bool must_wait(const Sequence& s, base::TimePoint now) const {
    return is_awaited(s, now) && waits_for_all(s);
  }
  /// Makes a step wait for windows that are not all there yet, where expected tokens per second
  /// gain by it, and always where tokens have to repeat (`sync` with a fixed window). Returns false
  /// when there are none.
  bool begin(Turn& turn);
  bool waiting() const { return wait_.has_value(); }
  /// Ends the wait with this ticket, whose windows are there.
  void windows_ready(std::uint64_t ticket);
  void stop() { wait_.reset(); }
  /// Returns when the present wait is given up.
  std::optional<base::TimePoint> ends() const;
  /// Gives the wait up if it has lasted too long: what is bound by now holds its sequence up, and
  /// the others go on.
  void end_late(base::TimePoint now);

  /// Notes that a bound token of this sequence was waited for in vain. The sequence is held up
  /// until the token is there, or its draft is dead; others go on.
  void was_late(Sequence& s, base::TimePoint now);
  /// Asks to be told of those that are held up, once each. Returns false when there are none.
  bool await_held_up(Turn& turn);
  /// Notes that the sequence goes on.
  void release(Sequence& s, base::TimePoint now);

  /// Keeps how long the passes of a chain that is over took.
  void remember(base::Duration step) { step_ = step > step.zero() ? step : step_; }
  /// Returns how long a pass of the draft takes; 0: not known yet.
  base::Duration step() const;
  /// Returns how long a bound token, or a window, is waited for before the draft counts as late.
  base::Duration timeout() const;

private:
  bool is_awaited(const Sequence& s, base::TimePoint now) const;
  bool waits_for_all(const Sequence& s) const;
  void note_late(base::TimePoint now);
  /// A step of all that could be in one now, if it waited for no window.
  struct StepNow {
    int sequences = 0;
    int rows = 0;
    double context = 0;
    double tokens = 0; ///< Tokens that it is expected to bring.
  };
  StepNow step_now() const;
  speculation::OverlappedSequence overlapped(const Sequence& s) const;
  int tokens_worth_waiting(std::span<const Sequence* const> late) const;

  Sequences& sequences_;
  const SchedulerConfig& config_;
  const DraftPlanning& planning_;
  DraftHealth& health_;

  struct Wait {
    std::uint64_t ticket = 0;
    base::TimePoint since;
  };
  std::optional<Wait> wait_;
  std::uint64_t tickets_ = 0;
  base::Duration step_{}; ///< Time of a pass, by the last chain that was over.
};

} // namespace paceline::scheduling
