#include "sampling/constraint.hpp"

#include <algorithm>
#include <bit>

namespace paceline::sampling {

bool allows_only(std::span<const std::uint32_t> mask, std::span<const TokenId> tokens) {
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      if (std::ranges::count(tokens, TokenId(word * 32) + std::countr_zero(bits)) == 0)
        return false;
  return true;
}

std::optional<TokenId> only_token(std::span<const std::uint32_t> mask) {
  std::optional<TokenId> only;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] == 0)
      continue;
    if (only || !std::has_single_bit(mask[word]))
      return std::nullopt;
    only = TokenId(word * 32) + std::countr_zero(mask[word]);
  }
  return only;
}

std::optional<FormToken> Constraint::foretell(const History& history) const {
  TokenMask mask;
  if (!next(history, mask))
    return std::nullopt;
  const auto only = only_token(mask);
  return only ? std::optional(FormToken{*only, FormToken::Kind::only}) : std::nullopt;
}

} // namespace paceline::sampling
