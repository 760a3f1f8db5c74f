#include "constraints/spelling.hpp"

#include "constraints/limits.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

namespace paceline::constraints {
namespace {

using sampling::FormToken;

struct Spelling {
  std::string text;
  TokenId token = 0;
};

/// Returns the mask's tokens, the shortest first; none if they are too many.
std::optional<std::vector<Spelling>> spellings(std::span<const std::uint32_t> mask,
                                               const text::Tokenizer& tokenizer) {
  std::vector<Spelling> all;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      if (all.size() == limits::spellings_max)
        return std::nullopt;
      const TokenId token = TokenId(word * 32) + std::countr_zero(bits);
      all.push_back({tokenizer.bytes(token), token});
    }
  std::ranges::stable_sort(all, {}, [](const Spelling& one) { return one.text.size(); });
  return all;
}

} // namespace

std::optional<FormToken> spelled_by(std::span<const std::uint32_t> mask,
                                    const text::Tokenizer& tokenizer, const GoesOn& goes_on) {
  const auto all = spellings(mask, tokenizer);
  if (!all || all->empty())
    return std::nullopt;
  if (all->size() == 1)
    return FormToken{all->front().token, FormToken::Kind::only};
  if (all->front().text.empty()) // a token that ends the text
    return std::nullopt;
  const auto parts = [](const Spelling& one, const Spelling& longer) {
    return !longer.text.starts_with(one.text);
  };
  // Up to here each is the beginning of the one behind it.
  const auto parting = std::ranges::adjacent_find(*all, parts);
  const auto last = parting == all->end() ? parting - 1 : parting;
  const auto leads_to = [&](const Spelling& shorter, const Spelling& one) {
    return shorter.text.size() == one.text.size() ||
           goes_on(shorter.token, one.text[shorter.text.size()]);
  };
  for (auto at = last + 1; at-- != all->begin();) {
    const bool shared =
        std::none_of(at + 1, all->end(), [&](const Spelling& more) { return parts(*at, more); });
    if (!shared || (at != all->begin() && !leads_to(*(at - 1), *at)))
      continue;
    const bool longest = at + 1 == all->end();
    return FormToken{at->token, longest ? FormToken::Kind::spelled : FormToken::Kind::usual};
  }
  return std::nullopt;
}

bool all_begin_with(char byte, std::span<const std::uint32_t> mask,
                    const text::Tokenizer& tokenizer) {
  const auto all = spellings(mask, tokenizer);
  return all && std::ranges::all_of(
                    *all, [byte](const Spelling& one) { return one.text.starts_with(byte); });
}

} // namespace paceline::constraints
