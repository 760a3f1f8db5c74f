// The patterns that steps of tokenizer.json search for in a text.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/regex.hpp"
#include "text/tokenizer/unicode.hpp"

#include <string>
#include <string_view>
#include <variant>

namespace paceline::text {

class Part;

/// A class of characters; each such character is a match of its own.
using CharacterClass = bool (*)(char32_t);
/// A literal text, an expression, or a class of characters.
using Pattern = std::variant<std::string, Regex, CharacterClass>;

/// Reads the "pattern" of a part: {"String": ...} or {"Regex": ...}.
Result<Pattern> read_pattern(Part& part);

/// Calls found(Span) for each match, from left to right. text: valid UTF-8.
template <class Found>
void for_each_match(const Pattern& pattern, std::string_view text, Found found) {
  if (const auto* literal = std::get_if<std::string>(&pattern)) {
    std::size_t at = text.find(*literal);
    for (; at != text.npos; at = text.find(*literal, at + literal->size()))
      found(Span{at, at + literal->size()});
  } else if (const auto* regex = std::get_if<Regex>(&pattern)) {
    RegexMatcher matcher(*regex, text);
    while (const auto match = matcher.next())
      found(*match);
  } else {
    const auto is_member = std::get<CharacterClass>(pattern);
    for (std::size_t at = 0; at < text.size();) {
      const Character c = first_character(text.substr(at));
      if (is_member(c.point))
        found(Span{at, at + c.size});
      at += c.size;
    }
  }
}

} // namespace paceline::text
