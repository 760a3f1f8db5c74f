// Scheduler and KV-cache manager.
#pragma once

#include "gpu/kv_pool.hpp"
#include "scheduling/names.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace paceline::scheduling {

enum class Pool { target, draft };
inline constexpr std::array both_pools{Pool::target, Pool::draft};

/// One of each.
template <class T>
struct PerPool {
  T target{};
  T draft{};
  T& operator[](Pool pool) { return pool == Pool::target ? target : draft; }
  const T& operator[](Pool pool) const { return pool == Pool::target ? target : draft; }
};

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
  /// But in the target's pool not more than this past what the prefix cache holds.
  int target_ahead = std::numeric_limits<int>::max();
  PrefillPath path{};
};

/// More pages for a sequence that has some; and fewer of the target's where its attention looks
/// back only so far.
struct KvGrow {
  SequenceId sequence = 0;
  PerPool<int> capacity;
  int target_read = 0; ///< Leading tokens that the target will not feed again.
};

/// Tables that cover `capacity` tokens; or, with `granted` false, nothing changed.
struct KvGrant {
  SequenceId sequence = 0;
  bool granted = false;
  gpu::PageTableRef target;
  gpu::PageTableRef draft; ///< Null without a draft model.
  int cached_target = 0;   ///< Leading tokens found in the prefix cache (KvReserve only).
  int cached_draft = 0;
};

/// Gives a sequence's pages back. Full pages of the log's first `target` (`draft`) tokens are
/// right and go to the prefix cache.
struct KvRelease {
  SequenceId sequence = 0;
  TokenLogView log;
  int target_valid = 0;
  int draft_valid = 0;
  PrefillPath path{};
};

/// A new scheduler: no sequence has pages.
struct KvReset {};

/// Shares full pages of a running sequence (after prefill), so that requests with the same prompt
/// need not wait for it to end.
struct KvPublish {
  SequenceId sequence = 0;
  TokenLogView log;
  int target_valid = 0;
  int draft_valid = 0;
  PrefillPath path{};
};

} // namespace paceline::scheduling
