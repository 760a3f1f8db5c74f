// Letters: their cases, and the classes of characters.
#include "text/chat_template/strings.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <array>
#include <utf8proc.h>

namespace paceline::text::jinja {
namespace {

bool is_letter(char32_t point) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool has_case(char32_t point) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
}

/// Returns the characters that stand for a character if case does not matter.
std::u32string folded(char32_t point) {
  std::array<utf8proc_int32_t, 8> out{};
  int last = 0;
  const auto size =
      utf8proc_decompose_char(utf8proc_int32_t(point), out.data(), 8, UTF8PROC_CASEFOLD, &last);
  return {out.begin(), out.begin() + std::clamp<utf8proc_ssize_t>(size, 0, 8)};
}

using Simple = utf8proc_int32_t (*)(utf8proc_int32_t);
/// Appends a capital. If a letter's capital is several letters, these are the capitals of what it
/// folds to; in a title all but the first stay small.
void append_capital(char32_t point, Simple first, Simple rest, std::string& out) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  const auto simple = char32_t(first(utf8proc_int32_t(point)));
  const bool small = category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
  const std::u32string parts = small ? folded(point) : std::u32string();
  if (parts.size() < 2 || (simple != point && rest != first))
    return append_character(simple, out);
  for (std::size_t i = 0; i < parts.size(); ++i)
    append_character(char32_t((i == 0 ? first : rest)(utf8proc_int32_t(parts[i]))), out);
}

utf8proc_int32_t unchanged(utf8proc_int32_t point) {
  return point;
}

/// The surroundings of a letter: whether it is first or within a word, and the text behind it.
struct Place {
  bool first = false;
  bool in_word = false;
  std::string_view rest;
};

void append_small(char32_t point, const Place& at, std::string& out) {
  const bool goes_on = !at.rest.empty() && has_case(first_character(at.rest).point);
  if (point == 0x130) // the only letter whose small form is two characters
    out += "i\u0307";
  else if (point == 0x3A3 && at.in_word && !goes_on) // a sigma at the end of a word
    append_character(0x3C2, out);
  else
    append_character(char32_t(utf8proc_tolower(utf8proc_int32_t(point))), out);
}

/// Maps every character by `append`, which also gets its surroundings.
template <class Append>
std::string mapped(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  Place place;
  for (place.first = true; !text.empty(); place.first = false) {
    const Character c = first_character(text);
    text.remove_prefix(c.size);
    place.rest = text;
    append(c.point, place, out);
    place.in_word = has_case(c.point);
  }
  return out;
}

void append_title(char32_t point, std::string& out) {
  append_capital(point, utf8proc_totitle, unchanged, out);
}

} // namespace

bool is_printable(char32_t point) {
  switch (utf8proc_category(utf8proc_int32_t(point))) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS: return point == ' ';
  default: return true;
  }
}

std::string upper(std::string_view text) {
  return mapped(text, [](char32_t c, const Place&, std::string& out) {
    append_capital(c, utf8proc_toupper, utf8proc_toupper, out);
  });
}

std::string lower(std::string_view text) {
  return mapped(text,
                [](char32_t c, const Place& at, std::string& out) { append_small(c, at, out); });
}

std::string capitalize(std::string_view text) {
  return mapped(text, [](char32_t c, const Place& at, std::string& out) {
    at.first ? append_title(c, out) : append_small(c, at, out);
  });
}

std::string title(std::string_view text) {
  return mapped(text, [](char32_t c, const Place& at, std::string& out) {
    at.in_word ? append_small(c, at, out) : append_title(c, out);
  });
}

std::string swap_case(std::string_view text) {
  return mapped(text, [](char32_t c, const Place& at, std::string& out) {
    if (utf8proc_category(utf8proc_int32_t(c)) == UTF8PROC_CATEGORY_LU)
      append_small(c, at, out);
    else if (utf8proc_category(utf8proc_int32_t(c)) == UTF8PROC_CATEGORY_LL)
      append_capital(c, utf8proc_toupper, utf8proc_toupper, out);
    else
      append_character(c, out);
  });
}

std::string fold_case(std::string_view text) {
  return mapped(text, [](char32_t c, const Place&, std::string& out) {
    for (const char32_t part : folded(c))
      append_character(part, out);
  });
}

namespace {

bool is(char32_t point, CharacterClass what) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  const bool decimal = category == UTF8PROC_CATEGORY_ND;
  const bool digit = decimal || point == 0xB2 || point == 0xB3 || point == 0xB9;
  const bool numeric =
      decimal || category == UTF8PROC_CATEGORY_NO || category == UTF8PROC_CATEGORY_NL;
  switch (what) {
  case CharacterClass::alphabetic: return is_letter(point);
  case CharacterClass::alphanumeric: return is_letter(point) || numeric;
  case CharacterClass::decimal: return decimal;
  case CharacterClass::digit: return digit;
  case CharacterClass::numeric: return numeric;
  case CharacterClass::printable: return is_printable(point);
  }
  return false;
}

bool all_of_case(std::string_view text, utf8proc_category_t wanted) {
  bool some = false;
  for (; !text.empty(); text.remove_prefix(first_character(text).size)) {
    const char32_t point = first_character(text).point;
    const auto category = utf8proc_category(utf8proc_int32_t(point));
    if (has_case(point) && category != wanted)
      return false;
    some = some || category == wanted;
  }
  return some;
}

} // namespace

bool is_all(std::string_view text, CharacterClass what) {
  for (; !text.empty(); text.remove_prefix(first_character(text).size))
    if (!is(first_character(text).point, what))
      return false;
  return true;
}

bool is_upper(std::string_view text) {
  return all_of_case(text, UTF8PROC_CATEGORY_LU);
}

bool is_lower(std::string_view text) {
  return all_of_case(text, UTF8PROC_CATEGORY_LL);
}

bool is_title(std::string_view text) {
  bool some = false;
  bool in_word = false;
  for (; !text.empty(); text.remove_prefix(first_character(text).size)) {
    const char32_t point = first_character(text).point;
    const bool small = utf8proc_category(utf8proc_int32_t(point)) == UTF8PROC_CATEGORY_LL;
    if (has_case(point) && small != in_word)
      return false;
    some = some || has_case(point);
    in_word = has_case(point);
  }
  return some;
}

} // namespace paceline::text::jinja
