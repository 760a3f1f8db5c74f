// The rows of a pass beside a window: its token tree (Miao et al. 2023, "SpecInfer", section 4).
#pragma once

#include "gpu/operations.hpp"
#include "scheduling/batch.hpp"

#include <optional>
#include <vector>

namespace paceline::execution {

/// A path of a token tree: a guess that may stand at a window's position in place of the drafted
/// token, and what the draft wrote behind it. If the token there is rejected and the guess takes
/// its place, the verification goes on with the path.
struct TreePath {
  int position = 0;            ///< The guess's.
  std::vector<TokenId> tokens; ///< The guess, and the tokens behind it.
  speculation::ChainRef chain; ///< Who wrote these; null: there are none.
  double expected = 0;         ///< Tokens that it should bring.
  /// Its pages, as kernels want them: the sequence's own up to the page of `position`, and `own`
  /// from there on. They are free when the pass is over, and a head has read the features there:
  /// what came true is fed once more.
  std::vector<std::uint32_t> pages;
  std::vector<gpu::PageRef> own;
  /// The copy of what the first of these has from earlier passes, made before this one; none: there
  /// is nothing.
  std::optional<gpu::PageCopy> copy;
  int shared_from = 0; ///< From here up to `position` it shares rows with the window.
  int first_logit_row = 0;

  int rows() const { return int(tokens.size()); }
  /// Returns `pages` as a table, which holds the pages. of: the sequence's own.
  gpu::PageTableRef table(const gpu::PageTable& of) const;
};

/// Chooses the rows that are likeliest to bring a token, within the round's TreeRows and the pages
/// that are left. None reaches behind the window, so a verdict has no more tokens than without
/// them. The choice looks at guesses, at what is bound, and at the tokens ahead of a row, and never
/// at a row's own token or at when it was drawn, which keeps `rejection` exact (docs/theory.md).
/// window: tokens of the window that are there.
std::vector<TreePath> tree_paths(const scheduling::BatchEntry& entry, int window,
                                 gpu::KvPool& pool);

} // namespace paceline::execution
