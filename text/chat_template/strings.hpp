// Python's operations on texts, which count characters, not bytes. All texts are valid UTF-8.
#pragma once

#include "text/chat_template/failure.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text::jinja {

std::size_t character_count(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);
/// Returns what str.isspace does, which covers more than Unicode's White_Space.
bool is_space(char32_t point);

enum class Side { left, right, both };
/// Removes the characters of `those` (none: white space) from its ends.
std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> those = {});
/// Splits at each `separator` (none: runs of white space), at most `splits` times (negative:
/// always).
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t splits,
                                    bool from_right = false);
std::vector<std::string_view> split_lines(std::string_view text);
/// Replaces at most `times` times (negative: always); an empty `from` lies between all characters.
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t times, Budget& budget);
/// Fills a text up to `width` characters: '<', '>', '^', 'c' like Python's center, or '=': the
/// filling goes behind a sign.
std::string aligned(std::string text, char how, std::int64_t width, std::string_view filling,
                    Budget& budget);
std::size_t count(std::string_view text, std::string_view part);

// These are in letters.cpp.
/// These use Unicode's full mappings.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

/// The classes of characters that Python's isalpha() and similar functions test.
enum class CharacterClass { alphabetic, alphanumeric, decimal, digit, numeric, printable };
bool is_printable(char32_t point);                       ///< True if repr shows it as it is.
bool is_all(std::string_view text, CharacterClass what); ///< True for an empty text.
/// Returns whether some letter has a case, and all that have one have this case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_title(std::string_view text);

/// Replaces HTML's special characters by entities.
std::string escaped(std::string_view text);

/// Writes a text as Python does in its source.
std::string quoted(std::string_view text);
/// Writes a text as JSON. ascii: whatever is not printable ASCII is escaped.
std::string json_quoted(std::string_view text, bool ascii);
/// Writes a number as Python does: the fewest digits that are read back as the same number.
std::string number_text(double x);

} // namespace paceline::text::jinja
