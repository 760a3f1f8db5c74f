// The form that an answer must have, as warpers see it: the tokens that may come next.
#pragma once

#include "paceline/request.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::sampling {

struct History;

/// A bit for each token of a vocabulary: bit t % 32 of word t / 32.
using TokenMask = std::vector<std::uint32_t>;

inline std::size_t mask_words(int vocabulary) {
  return (std::size_t(vocabulary) + 31) / 32;
}

inline bool allows(std::span<const std::uint32_t> mask, TokenId token) {
  return token >= 0 && std::size_t(token) / 32 < mask.size() &&
         (mask[std::size_t(token) / 32] >> (token % 32) & 1u) != 0;
}

/// Returns whether no tokens but these are allowed.
bool allows_only(std::span<const std::uint32_t> mask, std::span<const TokenId> tokens);

/// Returns the one token that the mask allows; none if it allows several, or no token.
std::optional<TokenId> only_token(std::span<const std::uint32_t> mask);

/// A token with which the form says that the answer goes on.
struct FormToken {
  enum class Kind : std::uint8_t {
    only,    ///< No other token may come.
    spelled, ///< Other tokens may come, but all of them spell the beginning of this one's text.
    usual,   ///< Other texts may come, too; this is the one that is written as a rule.
  };
  TokenId token = 0;
  Kind kind = Kind::only;
};

/// The form of one request's answer. All members may be called from any thread.
class Constraint {
public:
  virtual ~Constraint() = default;
  /// Finds the tokens that may follow the output: a pure function of the output, whatever was asked
  /// before. mask: resized to mask_words of the vocabulary. Returns false, with `mask` unspecified,
  /// where all tokens are allowed. That includes outputs with a forbidden token, whose rows nobody
  /// uses.
  virtual bool next(const History& history, TokenMask& mask) const = 0;
  /// Announces what `next` will be asked soon, so that another thread works it out meanwhile: the
  /// masks after the history, and after each token of the window that follows it.
  virtual void expect(const History& history, std::span<const TokenId> window) const = 0;
  /// Says which token comes after the output by the form alone, as far as it knows; like `next`,
  /// a pure function of the output. Unless no other token may come it is a guess, which whoever
  /// drafts it has judged. The default knows the only tokens.
  virtual std::optional<FormToken> foretell(const History& history) const;
};

} // namespace paceline::sampling
