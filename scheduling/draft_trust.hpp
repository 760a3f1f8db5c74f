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
  /// Somebody was held up since then. Whom the same delay has held up counts once.
  void cost(base::TimePoint since, base::TimePoint now);
  void on_time() { pause_ = {}; }
  /// It may be waited for; it may be given something to do.
  bool waits(base::TimePoint now) const { return now >= until_; }
  bool drafts(base::TimePoint now) const { return now >= idle_until_; }

private:
  base::TimePoint until_{};
  base::TimePoint idle_until_{};
  std::optional<base::TimePoint> counted_; ///< The end of the last delay that did.
  int idle_factor_ = 1;
  base::Duration pause_{};
};

/// Finds out that the draft's lane, which answers nobody, stands still: it owes tokens, and nothing
/// of what it writes grows.
class DraftWatch {
public:
  /// least: it is given up no sooner; 0: never.
  explicit DraftWatch(base::Duration least) : least_(least) {}

  /// To be told whenever either may have changed. owes: there is something that it should be
  /// writing. has_written: since it was last asked. step: how long a token takes it. True: it
  /// stands still (once; then the watch begins anew, for its successor). Time in which it owes
  /// nothing does not count, and takes nothing back: a request may be over before the draft is
  /// missed.
  bool stands_still(bool owes, bool has_written, base::Duration step, base::TimePoint now);
  /// Another draft writes from now on.
  void begin_anew() {
    silent_ = {};
    owes_since_.reset();
  }

private:
  base::Duration least_;
  base::Duration silent_{};
  std::optional<base::TimePoint> owes_since_; ///< When it was last asked. None: it owed nothing.
};

} // namespace paceline::scheduling
