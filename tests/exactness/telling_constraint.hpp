// A form that says how answers go on, where it is right and where it is not.
#pragma once

#include "models/synthetic/scripted_rows.hpp"
#include "tests/sampling/toy_constraint.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::testing {

/// Allows all but one or two tokens, but in some places one alone, which the target may say; in
/// others it guesses at one that may come, well or badly.
class TellingConstraint final : public ToyConstraint {
public:
  TellingConstraint(const models::ScriptedOptions& target, std::uint64_t seed)
      : ToyConstraint(target.vocabulary, seed, 5, -1), target_(target) {}

  bool next(const sampling::History& history, sampling::TokenMask& mask) const override {
    ToyConstraint::next(history, mask);
    if (place(history) == Place::only) {
      const TokenId only = some(mask, history);
      mask.assign(mask.size(), 0);
      mask[std::size_t(only) / 32] |= 1u << (only % 32);
    }
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
  /// Returns a token that is allowed, and possible for the target.
  TokenId some(const sampling::TokenMask& mask, const sampling::History& history) const {
    std::vector<TokenId> tokens(history.committed.begin(), history.committed.end());
    tokens.insert(tokens.end(), history.prefix.begin(), history.prefix.end());
    const std::vector<double> row = models::scripted_row(target_, tokens);
    auto token = TokenId(mixed(state_of(history) + 3) % row.size());
    while (!sampling::allows(mask, token) || row[std::size_t(token)] == 0)
      token = (token + 1) % TokenId(row.size());
    return token;
  }

  models::ScriptedOptions target_;
};

} // namespace paceline::testing
