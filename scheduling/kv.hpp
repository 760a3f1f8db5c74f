// Messages between the scheduler and the KV-cache manager.
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

/// One value for each pool.
template <class T>
using PerPool = std::vector<T>;

/// Says which products wrote, or are to write, a sequence's keys and values in the target's pages.
/// Positions that another path wrote have other bits, and are not shared.
struct PrefillPath {
  int fast = 0;  ///< Leading positions by the fast path; all others are by the invariant one.
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
  /// Most tokens granted past what is shared, where attention looks back only so far.
  int windowed_ahead = std::numeric_limits<int>::max();
  PrefillPath path{};
  std::string salt{}; ///< Shares only with sequences of the same salt (Request::cache_salt).
};

/// Asks for more pages for a sequence that has some; where attention looks back only so far, also
/// returns some.
struct KvGrow {
  SequenceId sequence = 0;
  int capacity = 0;
  int windowed_capacity = 0; ///< Capacity of pools where attention looks back only so far.
  int read = 0;              ///< Leading tokens that are not fed to such pools again.
};

/// The tables that cover `capacity` tokens; with `granted` false, nothing changed.
struct KvGrant {
  SequenceId sequence = 0;
  bool granted = false;
  PerPool<gpu::PageTableRef> tables; ///< Empty: not granted.
  PerPool<int> cached;               ///< Leading tokens found in the prefix cache.
};

/// Gives a sequence's pages back. Full pages of the log's first `valid` tokens are right and go to
/// the prefix cache; a pool that is not named gives it none.
struct KvRelease {
  SequenceId sequence = 0;
  TokenLogView log;
  PerPool<int> valid;
  PrefillPath path{};
  std::string salt{};
};

/// Tells of a new scheduler: no sequence has pages.
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
