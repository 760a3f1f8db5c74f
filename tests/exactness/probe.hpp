// What the lanes of a run were seen to do.
#pragma once

#include "base/clock.hpp"
#include "gpu/operations.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace paceline::testing {

/// How often things happened.
struct Seen {
  std::uint64_t steps = 0; ///< Of the target.

  // Windows, as judged.
  std::uint64_t plain = 0;           ///< Empty.
  std::uint64_t partial = 0;         ///< Shorter than is fixed, and not for the output's end.
  std::uint64_t full_acceptance = 0; ///< Not empty, and accepted whole.
  // What followed a window that was accepted whole.
  std::uint64_t hits = 0;
  std::uint64_t lookahead_misses = 0;
  std::uint64_t unbound_lookaheads = 0; ///< The target's own token.
  // Waiting for tokens that were bound.
  std::uint64_t late_windows = 0;
  std::uint64_t late_lookaheads = 0;
  base::Duration longest_wait{};
  std::uint64_t forked = 0;   ///< Tokens drawn for forks.
  std::uint64_t repeated = 0; ///< Draws with the noise of another draw.

  std::uint64_t judged = 0; ///< Accepted and first rejections.
  std::uint64_t accepted = 0;
  /// Bound when the pass ended, no token before it rejected, not the output's last, not judged.
  std::uint64_t dropped = 0;

  Seen& operator+=(const Seen& more) {
    for (const auto count : {&Seen::steps, &Seen::plain, &Seen::partial, &Seen::full_acceptance,
                             &Seen::hits, &Seen::lookahead_misses, &Seen::unbound_lookaheads,
                             &Seen::late_windows, &Seen::late_lookaheads, &Seen::forked,
                             &Seen::repeated, &Seen::judged, &Seen::accepted, &Seen::dropped})
      this->*count += more.*count;
    longest_wait = std::max(longest_wait, more.longest_wait);
    return *this;
  }
};

/// Watches one run's lanes.
class Probe {
public:
  Seen seen;
  int window = 0;                          ///< That is fixed; 0: `partial` does not count.
  int last_position = 0;                   ///< Of every sequence.
  std::vector<gpu::ProposeTask> looked_up; ///< What the last call of a Drafter proposed: tokens.

  /// A drafting piece begins: its positions are bound.
  void proposed(std::span<const gpu::ProposeTask> tasks) {
    for (const gpu::ProposeTask& task : tasks) {
      if (task.noise.seed % watched_seeds == 0)
        seen.repeated += !draws_.insert({task.noise.seed, task.position, task.attempt}).second;
      if (task.attempt >> speculation::limits::frontier_bits != 0) {
        ++seen.forked;
        continue;
      }
      if (task.rule == sampling::Rule::rejection && !task.q)
        continue; // there is no row for it: never bound
      Chain& chain = chains_[task.noise.seed];
      chain.start = int(task.attempt);
      chain.bound = int(task.position) + 1;
    }
  }

  void judged_windows(std::span<const gpu::VerifyTask> tasks) {
    ++seen.steps;
    for (const gpu::VerifyTask& task : tasks) {
      const int size = int(task.tokens.size());
      const int position = int(task.position);
      count(task);
      seen.plain += size == 0;
      seen.partial += size > 0 && size < std::min(window, last_position - position);
      if (task.accepted < size)
        continue;
      seen.full_acceptance += size > 0;
      if (!task.ended)
        continue;
      seen.unbound_lookaheads += size > 0;
      const Chain& chain = chains_[task.noise.seed];
      const int next = position + size;
      seen.dropped += chain.start > chain.ended && chain.bound > next && next < last_position;
      chains_[task.noise.seed].ended = next;
    }
  }

  void judged_lookaheads(std::span<const gpu::VerifyTask> tasks) {
    for (const gpu::VerifyTask& task : tasks) {
      count(task);
      seen.hits += task.accepted == 1;
      seen.lookahead_misses += task.accepted == 0;
    }
  }

private:
  struct Chain {
    int start = 0;
    int bound = 0;  ///< One past the last bound position.
    int ended = -1; ///< Position of the last verdict's own token: chains before it are over.
  };

  void count(const gpu::VerifyTask& task) {
    const int size = int(task.tokens.size());
    seen.judged += std::uint64_t(std::min(task.accepted + 1, size));
    seen.accepted += std::uint64_t(task.accepted);
    if (task.accepted < size)
      chains_[task.noise.seed].ended = int(task.position) + task.accepted;
  }

  static constexpr std::uint64_t watched_seeds = 8; // one in so many, for memory's sake

  std::map<std::uint64_t, Chain> chains_; ///< By the sequence's seed.
  std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> draws_;
};

} // namespace paceline::testing
