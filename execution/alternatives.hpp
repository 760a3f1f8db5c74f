// Rows of a pass, in a target of stages, for outcomes of the passes ahead other than full hits.
#pragma once

#include "execution/pass_outcome.hpp"
#include "gpu/operations.hpp"

#include <optional>
#include <span>
#include <vector>

namespace paceline::execution {

/// A fork that a pass has rows for. If its outcome comes true the pass goes on as this entry alone.
struct Alternative {
  scheduling::BatchEntry entry;      ///< The entry as it is if the fork's chain comes true.
  std::vector<TokenId> prefix;       ///< The entry's `assumed` tokens.
  std::optional<gpu::PageCopy> copy; ///< Copy before its rows are fed, for it begins inside a page.
  double chance = 0;
};

/// Returns the likeliest drafted forks for which pages are left, within the entry's ForForks and no
/// further than the entry's own rows. A fork has pages of its own from its position on; they are
/// free when the last pass that holds them is gone. A fork goes on from the last pass that has rows
/// for it. The choice looks at counts of drawn tokens, at guesses, and at drafted tokens ahead of a
/// fork, never at a fork's own tokens, whose rows are judged here or later whatever they are
/// (docs/theory.md). entry: what the pass was built for; window: how many of its tokens were there;
/// ahead: the branches of the passes ahead, in their order.
std::vector<Alternative> alternatives(const scheduling::BatchEntry& entry, int window,
                                      std::span<const Branch> ahead, gpu::KvPool& pool);

} // namespace paceline::execution
