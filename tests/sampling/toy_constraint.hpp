// A form in which what may come next depends on all of the output, and each token on itself: no
// position can be taken for another.
#pragma once

#include "sampling/warp.hpp"

#include <cstdint>
#include <optional>

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
  int vocabulary() const { return vocabulary_; }
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

/// The same, but that in some places one token alone may come, and in others the form guesses at a
/// token that may, well or badly.
class TellingConstraint final : public ToyConstraint {
public:
  TellingConstraint(int vocabulary, std::uint64_t seed) : ToyConstraint(vocabulary, seed, 5, -1) {}

  bool next(const sampling::History& history, sampling::TokenMask& mask) const override {
    if (!ToyConstraint::next(history, mask) || place(history) != Place::only)
      return true;
    const TokenId only = some(mask, history);
    mask.assign(mask.size(), 0);
    mask[std::size_t(only) / 32] |= 1u << (only % 32);
    return true;
  }
  std::optional<sampling::FormToken> foretell(const sampling::History& history) const override {
    using Kind = sampling::FormToken::Kind;
    sampling::TokenMask mask;
    next(history, mask);
    switch (place(history)) {
    case Place::only: return sampling::FormToken{*sampling::only_token(mask), Kind::only};
    case Place::spelled: return sampling::FormToken{some(mask, history), Kind::spelled};
    case Place::usual: return sampling::FormToken{some(mask, history), Kind::usual};
    case Place::free: break;
    }
    return std::nullopt;
  }

private:
  enum class Place { only, spelled, usual, free };
  Place place(const sampling::History& history) const {
    return Place(mixed(state_of(history) + 5) % 4);
  }
  TokenId some(const sampling::TokenMask& mask, const sampling::History& history) const {
    auto token = TokenId(mixed(state_of(history) + 3) % std::uint64_t(vocabulary()));
    while (!sampling::allows(mask, token))
      token = (token + 1) % vocabulary();
    return token;
  }
};

} // namespace paceline::testing
