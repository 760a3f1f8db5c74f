// Scheduler and KV-cache manager.
#pragma once

#include "gpu/kv_pool.hpp"
#include "scheduling/names.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace paceline::scheduling {

/// The pages of one model on one device, by number. A sequence has pages in each. The target's
/// leads: the prefix cache keeps no page of another that it lacks of this one.
using Pool = std::size_t;
inline constexpr Pool target_pool = 0;

/// One for each pool.
template <class T>
using PerPool = std::vector<T>;

/// Which products wrote, or are to write, a sequence's keys and values in the target's pages. Of
/// positions that another path wrote the bits are others: they are not shared.
struct PrefillPath {
  int fast = 0;  ///< The leading positions by the fast path, all others by the invariant one.
  int chunk = 1; ///< The fast path reads whole chunks of this many, counted from position 0.

  /// How many of the positions [begin, end) are of the fast path.
  int fast_in(int begin, int end) const { return std::clamp(fast, begin, end) - begin; }
  /// Whether reading can begin here.
  bool begins(int position) const { return position >= fast || position % chunk == 0; }
};

/// Pages for a sequence that has none: shares what the prefix cache holds of the log's first
/// `length` tokens, and grants pages for `capacity` tokens in each pool.
struct KvReserve {
  SequenceId sequence = 0;
  TokenLogView log;
  int length = 0;
  int capacity = 0;
  /// But where attention looks back only so far not more than this past what is shared.
  int windowed_ahead = std::numeric_limits<int>::max();
  PrefillPath path{};
  std::string salt{}; ///< Shares with sequences of the same one alone (Request::cache_salt).
};

/// More pages for a sequence that has some; and fewer where attention looks back only so far.
struct KvGrow {
  SequenceId sequence = 0;
  int capacity = 0;
  int windowed_capacity = 0; ///< Where attention looks back only so far.
  int read = 0;              ///< Leading tokens that are not fed again there.
};

/// Tables that cover `capacity` tokens; or, with `granted` false, nothing changed.
struct KvGrant {
  SequenceId sequence = 0;
  bool granted = false;
  PerPool<gpu::PageTableRef> tables; ///< Empty: not granted.
  PerPool<int> cached;               ///< Leading tokens found in the prefix cache.
};

/// Gives a sequence's pages back. Full pages of the log's first `valid` tokens are right and go to
/// the prefix cache; of a pool that is not named none do.
struct KvRelease {
  SequenceId sequence = 0;
  TokenLogView log;
  PerPool<int> valid;
  PrefillPath path{};
  std::string salt{};
};

/// A new scheduler: no sequence has pages.
struct KvReset {};

/// Shares full pages of a running sequence (after prefill), so that requests with the same prompt
/// need not wait for it to end.
struct KvPublish {
  SequenceId sequence = 0;
  TokenLogView log;
  PerPool<int> valid;
  PrefillPath path{};
  std::string salt{};
};

} // namespace paceline::scheduling
