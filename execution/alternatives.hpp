// Rows of a pass in a target of stages for outcomes of the passes ahead other than full hits.
#pragma once

#include "execution/pass_outcome.hpp"
#include "gpu/operations.hpp"

#include <optional>
#include <span>
#include <vector>

namespace paceline::execution {

/// A fork that a pass has rows for. If its outcome comes true the pass goes on as this entry alone.
struct Alternative {
  scheduling::BatchEntry entry;      ///< As if the fork's chain had come true.
  std::vector<TokenId> prefix;       ///< Its `assumed` tokens.
  std::optional<gpu::PageCopy> copy; ///< Before its rows are fed: its first page begins inside one.
  double chance = 0;
};

/// The likeliest that are drafted, within the entry's ForForks and no further than its own rows,
/// for which pages are left: those from the fork's position on are its own, and free when the last
/// pass that holds them is. A fork goes on from the last pass that has rows for it. Looks at counts
/// of drawn tokens, at guesses, and at drafted tokens ahead of a fork: never at a fork's own, whose
/// rows are judged here or later whatever they are (docs/theory.md).
/// entry: what the pass was built for; window: its tokens that were there. ahead: of passes ahead,
/// in their order.
std::vector<Alternative> alternatives(const scheduling::BatchEntry& entry, int window,
                                      std::span<const Branch> ahead, gpu::KvPool& pool);

} // namespace paceline::execution
