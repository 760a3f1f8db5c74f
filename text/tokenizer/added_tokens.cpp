#include "text/tokenizer/added_tokens.hpp"

#include "text/tokenizer/unicode.hpp"

#include <algorithm>

namespace paceline::text {

AddedTokens::AddedTokens(const std::vector<Token>& tokens) {
  std::vector<std::pair<std::string, TokenId>> entries;
  for (const Token& token : tokens) {
    entries.emplace_back(token.content, token.id);
    if (token.single_word || token.lstrip || token.rstrip)
      rules_[token.id] = token;
  }
  trie_ = Trie(std::move(entries));
}

/// Finds the next token. done: where the text begins that is still to be encoded.
std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from,
                                                    std::size_t done) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!trie_.may_begin_with(text[at]))
      continue;
    Match match{at, at, at, 0};
    trie_.for_each_prefix(text.substr(at), [&](std::size_t length, TokenId id) {
      match.end = match.next = at + length;
      match.id = id;
    });
    if (match.end == at)
      continue;
    if (is_allowed(text, match)) {
      take_space(text, done, match);
      return match;
    }
    at = match.next - 1; // matches do not overlap, not even one that is not allowed
  }
  return {};
}

bool AddedTokens::is_allowed(std::string_view text, const Match& match) const {
  const auto rule = rules_.find(match.id);
  if (rule == rules_.end() || !rule->second.single_word)
    return true;
  const std::string_view before = text.substr(0, match.begin);
  const std::string_view after = text.substr(match.end);
  return (before.empty() || !is_word(last_character(before).point)) &&
         (after.empty() || !is_word(first_character(after).point));
}

void AddedTokens::take_space(std::string_view text, std::size_t done, Match& match) const {
  const auto rule = rules_.find(match.id);
  if (rule == rules_.end())
    return;
  while (rule->second.lstrip && match.begin > done) {
    const Character c = last_character(text.substr(0, match.begin));
    if (!is_white_space(c.point))
      break;
    match.begin -= c.size;
  }
  while (rule->second.rstrip && match.end < text.size()) {
    const Character c = first_character(text.substr(match.end));
    if (!is_white_space(c.point))
      break;
    match.end += c.size;
  }
}

} // namespace paceline::text
