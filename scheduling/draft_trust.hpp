// How far the draft is relied on: not while it was late a moment ago, and no more when it stands
// still.
#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <optional>

namespace paceline::scheduling {

/// After the draft was late nobody waits for it for a while, which doubles each time until it is on
/// time again. And where a token was bound, so that its sequence had to wait, nothing is drafted
/// for as long as that took, then for twice as long, and so on: a draft that is always late costs
/// little, and one that was late once is soon used again.
class DraftBackOff {
public:
  void late(base::TimePoint now);
  /// Somebody was held up for so long.
  void cost(base::Duration held_up, base::TimePoint now);
  void on_time() { pause_ = {}; }
  /// It may be waited for; it may be given something to do.
  bool waits(base::TimePoint now) const { return now >= until_; }
  bool drafts(base::TimePoint now) const { return now >= idle_until_; }

private:
  base::TimePoint until_{};
  base::TimePoint idle_until_{};
  int idle_factor_ = 1;
  base::Duration pause_{};
};

/// Finds out that the draft's lane, which answers nobody, stands still: it owes tokens, and nothing
/// of what it writes grows.
class DraftWatch {
public:
  /// least: it is given up no sooner; 0: never.
  explicit DraftWatch(base::Duration least) : least_(least) {}

  /// To be told now and then. owes: there is something that it should be writing. written: anything
  /// that changes whenever it has written. step: how long a token takes it. True: it stands still
  /// (once; then the watch begins anew, for its successor).
  bool stands_still(bool owes, std::uint64_t written, base::Duration step, base::TimePoint now);
  /// Another draft writes from now on.
  void begin_anew() { silent_since_.reset(); }

private:
  base::Duration least_;
  std::uint64_t written_ = 0;
  std::optional<base::TimePoint> silent_since_;
};

} // namespace paceline::scheduling
