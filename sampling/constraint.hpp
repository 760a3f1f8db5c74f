// What form an answer may have, as warpers see it: tokens that may come next.
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

/// Whether nothing but these tokens is allowed.
bool allows_only(std::span<const std::uint32_t> mask, std::span<const TokenId> tokens);

/// The form of one request's answer. Threads: all members from any.
class Constraint {
public:
  virtual ~Constraint() = default;
  /// Which tokens may follow the output: a pure function of it, whatever was asked before.
  /// mask: resized to mask_words of the vocabulary. Returns false, with `mask` unspecified, where
  /// all tokens may: behind a token that was not allowed, too, whose rows nobody takes.
  virtual bool next(const History& history, TokenMask& mask) const = 0;
  /// What `next` will be asked soon, so that it is worked out meanwhile on another thread: behind
  /// the history, and behind each token of a window that goes on from it.
  virtual void expect(const History& history, std::span<const TokenId> window) const = 0;
};

} // namespace paceline::sampling
