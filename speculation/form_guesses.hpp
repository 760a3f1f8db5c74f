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
  FormGuesses();

  struct Guess {
    TokenId token = 0;
    double chance = 0; ///< 1: no other token may come.
  };
  /// Returns the guess behind a text, which has the prompt and what was drafted; none if the form
  /// does not know.
  std::optional<Guess> behind(const SequenceSpec& spec, std::span<const TokenId> text) const;
  /// Learns from the tokens that were committed since the last call; the first call learns nothing.
  void learn(const SequenceSpec& spec, std::span<const TokenId> committed);

private:
  using Kind = sampling::FormToken::Kind;
  static std::optional<sampling::FormToken> asked(const SequenceSpec& spec,
                                                  std::span<const TokenId> text);
  const FadingMean& right(Kind kind) const { return right_[kind == Kind::usual]; }

  static constexpr std::array<double, 2> prior{0.9, 0.5}; ///< Of spelled tokens, and of usual ones.
  static constexpr double prior_weight = 4;
  static constexpr double memory = 32; // tokens of a kind

  std::array<FadingMean, 2> right_;
  std::optional<std::size_t> read_; ///< Leading tokens of the text that were learned from.
};

} // namespace paceline::speculation
