// Characters, their properties and normal forms, for tokenizers. All texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::text {

struct Character {
  char32_t point = 0;
  std::size_t size = 0; ///< Size in bytes.
};
Character first_character(std::string_view text); ///< text: not empty.
Character last_character(std::string_view text);  ///< text: not empty.
void append_character(char32_t point, std::string& out);
bool is_ascii(std::string_view text);

bool is_white_space(char32_t point); ///< True for Unicode's White_Space.
bool is_numeric(char32_t point);     ///< True for Nd, Nl and No.
/// Returns whether \w matches (UTS 18, annex C): alphabetic, marks, decimal digits, connectors,
/// joiners.
bool is_word(char32_t point);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Normalises as the reference implementation, whose tables are Unicode 9's: newer characters stay
/// as they are.
std::string normalize(NormalForm form, std::string_view text);
std::string lower_case(std::string_view text);

/// Adapts a text to PCRE2's tables, which are Unicode 14's: each newer character that the
/// reference's expressions know becomes an older one of the same general category, script and size.
/// None: there is no such character.
std::optional<std::string> for_unicode_14(std::string_view text);

/// Returns the bytes of the extended grapheme cluster (UAX 29) that begins the text; text: not
/// empty.
std::size_t first_grapheme(std::string_view text);

} // namespace paceline::text
