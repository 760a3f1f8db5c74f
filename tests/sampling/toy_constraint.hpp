// A form in which what may come next depends on all of the output, and each token on itself: no
// position can be taken for another.
#pragma once

#include "sampling/warp.hpp"

#include <cstdint>

namespace paceline::testing {

class ToyConstraint : public sampling::Constraint {
public:
  ToyConstraint(int vocabulary, std::uint64_t seed, unsigned of = 3, TokenId always = 0)
      : vocabulary_(vocabulary), seed_(seed), of_(of), always_(always) {}

  /// One of `of` tokens may come, and `always`; all but one or two where there is no such.
  bool allows(const sampling::History& history, TokenId token) const {
    const std::uint64_t state = state_of(history);
    if (always_ >= 0)
      return token == always_ || mixed(state + std::uint64_t(token)) % of_ == 0;
    const auto vocabulary = std::uint64_t(vocabulary_);
    return token != TokenId(mixed(state + 1) % vocabulary) &&
           token != TokenId(mixed(state + 2) % vocabulary);
  }
  bool next(const sampling::History& history, sampling::TokenMask& mask) const override {
    mask.assign(sampling::mask_words(vocabulary_), 0);
    for (TokenId token = 0; token < vocabulary_; ++token)
      if (allows(history, token))
        mask[std::size_t(token) / 32] |= 1u << (token % 32);
    return true;
  }
  void expect(const sampling::History&, std::span<const TokenId>) const override {}

protected:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  std::uint64_t state_of(const sampling::History& history) const {
    std::uint64_t state = seed_;
    for (const TokenId token : history.committed.subspan(history.prompt_tokens))
      state = mixed(state + std::uint64_t(token) + 1);
    for (const TokenId token : history.prefix)
      state = mixed(state + std::uint64_t(token) + 1);
    return state << 20;
  }

private:
  int vocabulary_;
  std::uint64_t seed_;
  unsigned of_;
  TokenId always_;
};

} // namespace paceline::testing
