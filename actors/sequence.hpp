// The scheduler's view of one sequence.
#pragma once

#include "messages/batch.hpp"
#include "messages/kv.hpp"
#include "sampling/policy.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::actors {

struct Sequence {
  enum class Phase {
    waiting,   ///< Has no pages.
    reserving, ///< Has asked for pages.
    running,
  };

  messages::SequenceSpecRef spec;
  messages::TokenLogRef log;
  std::uint64_t arrival = 0; ///< Order of admission: the earlier, the higher its priority.
  Phase phase = Phase::waiting;
  messages::PrefillPath path; ///< Of every stay: its bits do not depend on what befell it.

  // Its stay in the caches.
  int cached = 0; ///< Committed tokens in the target's pages.
  gpu::PageTableRef target_pages;
  gpu::PageTableRef draft_pages;
  messages::ResidenceRef residence;
  bool growing = false; ///< Has asked for more pages.
  bool published = false;

  // Its speculation.
  messages::ChainRef chain; ///< What the draft is writing; null: nothing.
  int window = 0;           ///< K of the chain's next window.
  int lookahead_until = 0;  ///< Chain positions below this were drafted under a verification.
  sampling::SequenceThrottle throttle;

  // The step in flight.
  bool in_flight = false;
  messages::Epoch epoch; ///< Of that step, or of the reservation under way.

  // What it has been through.
  std::optional<base::TimePoint> started; ///< When it first had pages.
  int refusals = 0;                       ///< Of pages, in a row, while nobody else ran.
  int rebuilds = 0;                       ///< Without a new token since.
  int cached_tokens = 0;
  SpeculationStats stats;
  std::vector<TokenLogprob> prompt_logprobs; ///< Of the tokens fed in this stay.

  int length() const { return log->size(); }
  int output() const { return length() - spec->prompt_tokens; }
  int budget() const { return spec->max_tokens - output(); }
  /// Positions of the current window that are bound.
  int bound() const { return chain ? std::clamp(chain->bound() - length(), 0, window) : 0; }
  bool decoding() const { return length() - cached <= 1; }
  /// Its next rows are of the fast path.
  bool reads_fast() const { return cached < path.fast; }
  int rows_at_least() const { return reads_fast() ? path.chunk : 1; }
  /// Its prompt's log-probabilities go out with its first token, or with its end.
  bool scores() const { return spec->prompt_logprobs && output() == 0; }
};

} // namespace paceline::actors
