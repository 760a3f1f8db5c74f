// What the form of an answer says of its next tokens, and how often that came true.
#pragma once

#include "speculation/estimates.hpp"
#include "speculation/sequence.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace paceline::speculation {

/// The guesses of one sequence's form, with their chances. These are learned from every committed
/// token, whether or not the form drafted in its place, as those of a look-up's matches are
/// (MatchOdds); so what is drafted follows from the text alone.
class FormGuesses {
public:
  struct Guess {
    TokenId token = 0;
    double chance = 0; ///< Chance that it comes true.
  };
  /// Returns the guess behind a text, which has the prompt and what was drafted; none if the form
  /// does not know.
  std::optional<Guess> behind(const SequenceSpec& spec, std::span<const TokenId> text) const;
  /// Learns from the tokens that were committed since the last call; the first call learns nothing.
  void learn(const SequenceSpec& spec, std::span<const TokenId> committed);

private:
  static std::optional<sampling::FormToken> asked(const SequenceSpec& spec,
                                                  std::span<const TokenId> text);

  static constexpr double prior_weight = 4;
  static constexpr double memory = 32; // tokens of a kind

  /// Share of each FormToken::Kind that came true.
  std::array<FadingMean, 3> right_{{{1, prior_weight}, {0.7, prior_weight}, {0.5, prior_weight}}};
  std::optional<std::size_t> read_; ///< Leading tokens of the text that were learned from.
};

} // namespace paceline::speculation
