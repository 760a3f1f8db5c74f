// Keeps how well the draft does, and how far it is relied on.
#pragma once

#include "base/clock.hpp"
#include "speculation/chain.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace paceline::scheduling {

/// The state of a draft is the worst of those that apply. They are ordered from the best on.
enum class DraftState {
  healthy,  ///< It drafts, and a step waits for its windows where that pays.
  late,     ///< A step waited for it in vain: it drafts, and nobody waits.
  paused,   ///< It held sequences up, or windows bring less than they cost: it drafts nothing.
  failing,  ///< It is down, and its successor is not there yet.
  disabled, ///< It kept failing, or its draws were inconsistent: it is not used again.
};

/// Counts failures, so that whoever keeps failing is used no longer. `too_many` failures are too
/// many, and so many successes make up for one of them.
class FailureCount {
public:
  explicit FailureCount(std::int64_t too_many, int successes = 1)
      : too_many_(too_many * successes), successes_(successes) {}
  /// Counts a failure. Returns whether that is one too many.
  bool failed() { return (count_ += successes_) >= too_many_; }
  void succeeded() { count_ -= count_ > 0; }
  void forget() { count_ = 0; }

private:
  std::int64_t too_many_;
  int successes_;
  std::int64_t count_ = 0;
};

/// The draft of one sequence. It is late from when a bound token was waited for in vain until the
/// sequence goes on, and paused while its windows do not bring what they cost.
///
/// The pause follows from a sequential test by betting (Waudby-Smith and Ramdas 2024, section 4):
/// somebody who bets in each round that its window brings less than it costs gains nothing in the
/// long run unless that is so. Windows that pay are therefore mistaken for windows that do not at
/// most once in 1 / `false_alarms` rounds (Ville's inequality; begun anew whenever the bets are
/// lost, as Page's test of 1954 is). A pause is so long that what was lost before it stays below
/// `budget` of all that is decoded.
class SequenceHealth {
public:
  static constexpr double false_alarms = 0.01;
  static constexpr double budget = 0.0075;

  /// Takes in a round with a window. accepted: tokens of the window. cost: what it takes, in tokens
  /// that plain decoding would have brought meanwhile.
  void observe(int window, int accepted, double cost);
  /// Takes in a round without a window.
  void observe_plain() { pause_ = pause_ > 0 ? pause_ - 1 : 0; }
  /// Returns false while drafting is paused.
  bool pays() const { return pause_ == 0; }

  /// Notes that tokens that are bound by now were waited for in vain.
  void was_late(const speculation::Chain& chain, base::TimePoint now) {
    late_ = {now, chain.bound(), false};
  }
  bool is_late() const { return late_.has_value(); }
  /// Says whether a bound token is missing: no step can judge it, and none may do without it.
  bool is_held_up(const speculation::Chain& chain) const {
    return late_ && !chain.settled(late_->until);
  }
  /// Returns, to the first who asks, the position that the chain has to be settled up to.
  std::optional<int> awaits();
  /// Notes that the sequence goes on, or its chain is over. Returns since when it was late.
  std::optional<base::TimePoint> go_on();
  /// Says whether the draft has read or written more for the sequence than when this was last
  /// asked: a new chain, or a residency, is no sign of life. tokens: how many there are now.
  bool has_grown(int tokens);

private:
  static constexpr std::array<double, 3> stakes{0.1, 0.3, 0.9}; ///< Shares of a round's worst loss.
  static constexpr int shortest_pause = 16;
  static constexpr int longest_pause = 16'384;

  std::array<double, stakes.size()> gains_{}; ///< Gains of each bet, as logarithms; never below 0.
  double lost_ = 0; ///< Tokens lost; what was gained before does not count.
  int pause_ = 0;   ///< Plain rounds left.
  struct Late {
    base::TimePoint since;
    int until = 0; ///< Positions before this one were bound.
    bool awaited = false;
  };
  std::optional<Late> late_;
  int tokens_ = 0;
};

/// The draft of all sequences.
///
/// A draft that was late is not waited for during a back-off, which doubles each time until the
/// draft is on time again. Where a token was bound, so that its sequence had to wait, the draft is
/// paused for as long as that took, then for twice as long, and so on: a draft that is always late
/// costs little, and one that was late once is soon used again. A draft whose lane stands still
/// answers nobody: it owes tokens, and nothing that it writes grows.
class DraftHealth {
public:
  /// exists: there is a draft at all. patience: how long it is never given up; 0: it is never given
  /// up.
  DraftHealth(bool exists, base::Duration patience) : disabled_(!exists), patience_(patience) {}

  DraftState state(base::TimePoint now) const;
  bool drafts(base::TimePoint now) const { return state(now) <= DraftState::late; }
  bool is_disabled() const { return disabled_; }
  std::uint64_t draft() const { return draft_; }

  /// draft: a number for the present draft, another one for each successor; 0: there is none.
  void replaced_by(std::uint64_t draft);
  void disable() { disabled_ = true; }
  void was_late(base::TimePoint now);
  void was_on_time() { back_off_ = {}; }
  /// Notes that a sequence that was late since then goes on. Sequences that the same delay held up
  /// count once.
  void held_up(base::TimePoint since, base::TimePoint now);
  /// Is called whenever `owes` or `has_written` may have changed. owes: the draft should be writing
  /// something. has_written: it wrote since this was last asked. step: how long a token takes it.
  /// Returns true when the draft stands still (once; then the watch begins anew, for its
  /// successor). Time in which it owes nothing does not count, and takes nothing back: a request
  /// may be over before the draft is missed.
  bool stands_still(bool owes, bool has_written, base::Duration step, base::TimePoint now);

private:
  void watch_anew();

  bool disabled_;
  std::uint64_t draft_ = 0;
  base::Duration patience_;

  base::TimePoint late_until_{};
  base::Duration back_off_{};

  base::TimePoint paused_until_{};
  std::optional<base::TimePoint> counted_; ///< End of the last delay that counted.
  int pause_factor_ = 1;

  base::Duration silent_{};
  std::optional<base::TimePoint> owes_since_; ///< Last time it was seen owing; none: owed nothing.
};

} // namespace paceline::scheduling
