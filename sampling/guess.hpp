// Fork lookahead: which tokens may follow where a drafted one is rejected, how likely each outcome
// of a verification is, and what drafting for it is worth. docs/theory.md has the derivation.
#pragma once

#include "sampling/limits.hpp"
#include "sampling/rules.hpp"
#include "sampling/warp.hpp"

#include <array>
#include <limits>
#include <span>
#include <vector>

namespace paceline::sampling {

/// Tokens that may stand at a position in place of the drafted one, the likeliest first.
struct Guesses {
  std::array<TokenId, std::size_t(limits::guesses_max)> tokens{};
  int count = 0;
  /// How sure the draft is of its token: the token's score minus that of the first guess.
  float margin = std::numeric_limits<float>::infinity();

  /// Returns the index of `token` among the guesses, -1 if it is none of them.
  int rank(TokenId token) const {
    for (int i = 0; i < count; ++i)
      if (tokens[std::size_t(i)] == token)
        return i;
    return -1;
  }
};

/// Returns the draft's guesses for `position`, whose drafted token is `drafted`: the other tokens
/// with the highest scores. A score is the draft's logit with bias and penalties, plus for
/// `coupled` the position's own noise, which the target's draw uses, too. The guesses depend on the
/// draft's row, the noise of the rule and the past, never on how the token is judged. logits:
/// [row], f32; the first `vocabulary` are no padding.
Guesses guess(std::span<const float> logits, int vocabulary, const Warping& warping,
              const History& history, Rule rule, const Noise& noise, std::uint32_t position,
              TokenId drafted, WarpScratch& scratch);

/// Edges of the classes of Guesses::margin: below the first, between two, above the last.
inline constexpr std::array margin_edges{-2.0f, -1.0f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 5.0f};
inline constexpr std::size_t margin_classes = margin_edges.size() + 1;
std::size_t margin_class(float margin);

/// Numbers of judged and accepted positions, by how sure the draft was of its token there.
struct JudgedByMargin {
  std::array<int, margin_classes> judged{};
  std::array<int, margin_classes> accepted{};

  void add(float margin, bool was_accepted);
  void add(const JudgedByMargin& more);
};

/// Estimated probabilities of the outcomes of a verification, learned from judged positions.
struct Odds {
  Odds() { by_margin.fill(acceptance); }

  double acceptance = 0.7; ///< Chance that a drafted token is accepted (the paper's a).
  std::array<double, margin_classes> by_margin{};
  /// Chance that a rejected token's place is taken by the guess of this rank. With the demo pair at
  /// temperature 0.8 the first 1, 2, 4 and 8 guesses together have 0.28, 0.40, 0.51 and 0.61.
  std::array<double, std::size_t(limits::guesses_max)> guess{0.28,  0.12,  0.06, 0.05,
                                                             0.035, 0.025, 0.02, 0.02};

  /// Returns the chance that a token is accepted once all tokens before it are.
  double accepted(const Guesses& at) const { return by_margin[margin_class(at.margin)]; }
  /// Returns the chance that a position's token is rejected and the guess of `rank` takes its
  /// place. reached: the chance that all tokens before it are accepted.
  double outcome(double reached, const Guesses& at, int rank) const {
    return reached * (1 - accepted(at)) * guess[std::size_t(rank)];
  }
  /// Returns the chance that the chain itself or an outcome covered by one of `rows` well-chosen
  /// forks comes true: h of docs/theory.md.
  double hit(int window, int rows) const;
  /// Returns `hit` for each number of rows from 0 to `most`.
  std::vector<double> hits(int window, int most) const;
  /// Returns, for each number of rows from 0 to `most` beside a window, the tokens that they should
  /// bring: rows of guesses and, with `behind`, of what is drafted behind these, as far as the
  /// window.
  std::vector<double> tree_gains(int window, int most, bool behind) const;
};

} // namespace paceline::sampling
