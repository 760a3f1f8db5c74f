// Contracts always hold where actors hand over, and are checked there in every build. A breach ends
// the actor that finds it, with its reason, and its work is recomputed from committed tokens.
#pragma once

#include "scheduling/batch.hpp"
#include "scheduling/commits.hpp"

#include <span>
#include <stdexcept>

namespace paceline::scheduling {

/// Throws std::logic_error with the message `otherwise` unless `holds`.
inline void require(bool holds, const char* otherwise) {
  if (!holds)
    throw std::logic_error(otherwise);
}

/// Checks that a step's tokens are in the log, and that its pages hold them and the window.
inline void check_contract(const Batch& batch) {
  require(batch.after < batch.id, "a batch follows a later one");
  for (const BatchEntry& e : batch.entries) {
    require(e.spec && e.log, "a batch names a sequence without its log");
    require(e.assumed >= 0 && e.logged() <= e.log->size(), "a step feeds tokens nobody committed");
    require(e.feed.follows < batch.id, "a chunk of a prompt follows a later one");
    require(e.feed.cached < e.length, "a step feeds nothing of a sequence");
    require(e.round.window == 0 || e.round.chain, "a window has no chain");
    require(e.feed.pages && e.feed.pages->capacity() >= e.length + e.round.window,
            "a step has fewer pages than rows");
  }
}

/// Checks that drafting goes on from tokens that are there, with a chain that begins no later than
/// they end. The target has not fed the last of them, so the features at its position may be a
/// rejected token's.
inline void check_contract(std::span<const speculation::Frontier> frontiers) {
  for (const speculation::Frontier& f : frontiers) {
    require(f.spec && f.log && f.chain && f.residency, "a frontier is not complete");
    require(f.log_length <= f.log->size(), "a frontier lies behind what was committed");
    require(f.chain->start() <= f.length(), "a chain begins behind its frontier");
    require(f.features.count < f.length(), "a head would read features of a rejected token");
  }
}

/// Checks that what was judged was there to be judged, and that every token has its source.
inline void check_contract(const Verdicts& verdicts) {
  for (const Verdict& v : verdicts.sequences) {
    require(v.accepted <= v.judged && v.judged <= v.window + 1, "more was judged than was there");
    require(int(v.tokens.size()) <= v.window + 1 && v.tree_tokens <= int(v.tokens.size()),
            "more was judged than was there");
    require(v.sources.size() == v.tokens.size(), "a token has no source");
    require(v.logprobs.empty() || v.logprobs.size() == v.tokens.size(),
            "a token has no log-probability");
  }
}

inline void check_contract(const Commits& commits) {
  for (const Committed& c : commits.sequences) {
    require(c.first >= 0 && c.sources.size() == c.tokens.size(), "a token has no source");
    require(c.logprobs.empty() || c.logprobs.size() == c.tokens.size(),
            "a token has no log-probability");
  }
}

} // namespace paceline::scheduling
