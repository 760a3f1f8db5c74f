// Blanks around words.
#pragma once

#include <string_view>

namespace paceline::text {

inline constexpr std::string_view json_blanks = " \t\r\n";

inline bool is_blank(char c) {
  return json_blanks.find(c) != json_blanks.npos;
}

/// Returns the text without the blanks around it.
inline std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(json_blanks);
  if (begin == text.npos)
    return {};
  return text.substr(begin, text.find_last_not_of(json_blanks) - begin + 1);
}

} // namespace paceline::text
