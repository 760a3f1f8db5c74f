// The form that an answer must have, as warpers see it: the tokens that may come next.
#pragma once

#include "paceline/request.hpp"

#include <cstddef>
#include <cstdint>
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
};

} // namespace paceline::sampling
