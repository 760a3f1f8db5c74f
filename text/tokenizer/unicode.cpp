#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utf8proc.h>

namespace paceline::text {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

struct Range {
  char32_t first;
  char32_t last;
};
/// Characters with a decomposition or a combining class that Unicode 9 did not have yet.
/// tools/reference/unicode_ranges.py prints them.
constexpr std::array later_than_unicode_9 = std::to_array<Range>({
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
});

bool is_later_than_unicode_9(char32_t point) {
  const auto range =
      std::lower_bound(later_than_unicode_9.begin(), later_than_unicode_9.end(), point,
                       [](const Range& r, char32_t value) { return r.last < value; });
  return range != later_than_unicode_9.end() && range->first <= point;
}

int options_of(NormalForm form) {
  switch (form) {
  case NormalForm::nfc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  case NormalForm::nfd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  case NormalForm::nfkc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  case NormalForm::nfkd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

void append_normal(NormalForm form, std::string_view text, std::string& out) {
  if (text.empty())
    return;
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(bytes_of(text), utf8proc_ssize_t(text.size()), &mapped,
                                 utf8proc_option_t(options_of(form)));
  if (size >= 0)
    out.append(reinterpret_cast<const char*>(mapped), std::size_t(size));
  else
    out += text;
  std::free(mapped);
}

} // namespace

Character first_character(std::string_view text) {
  utf8proc_int32_t point = 0;
  const auto size = utf8proc_iterate(bytes_of(text), utf8proc_ssize_t(text.size()), &point);
  return size > 0 ? Character{char32_t(point), std::size_t(size)} : Character{0xFFFD, 1};
}

Character last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80)
    --at;
  return first_character(text.substr(at));
}

void append_character(char32_t point, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(utf8proc_int32_t(point), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), std::size_t(size));
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool is_white_space(char32_t point) {
  return (point >= 0x9 && point <= 0xD) || point == ' ' || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_numeric(char32_t point) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t point) {
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL)
    return true; // letters, marks, decimal and letter numbers
  const auto in = [point](char32_t first, char32_t last) {
    return point >= first && point <= last;
  };
  return category == UTF8PROC_CATEGORY_PC || in(0x200C, 0x200D) ||
         // Alphabetic symbols: letters in circles and squares.
         in(0x24B6, 0x24E9) || in(0x1F130, 0x1F149) || in(0x1F150, 0x1F169) || in(0x1F170, 0x1F189);
}

std::string normalize(NormalForm form, std::string_view text) {
  std::string out;
  if (is_ascii(text))
    return out = text;
  out.reserve(text.size());
  // What is left as it is takes no part in composition or ordering: a boundary.
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    if (c.point > 0x7F && is_later_than_unicode_9(c.point)) {
      append_normal(form, text.substr(done, at - done), out);
      out += text.substr(at, c.size);
      done = at + c.size;
    }
    at += c.size;
  }
  append_normal(form, text.substr(done), out);
  return out;
}

std::string lower_case(std::string_view text) {
  constexpr char32_t capital_i_with_dot = 0x130; // the one letter that becomes two characters
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    text.remove_prefix(c.size);
    if (c.point == capital_i_with_dot)
      out += "i\u0307";
    else
      append_character(char32_t(utf8proc_tolower(utf8proc_int32_t(c.point))), out);
  }
  return out;
}

std::size_t first_grapheme(std::string_view text) {
  Character before = first_character(text);
  std::size_t size = before.size;
  utf8proc_int32_t state = 0;
  while (size < text.size()) {
    const Character c = first_character(text.substr(size));
    if (utf8proc_grapheme_break_stateful(utf8proc_int32_t(before.point), utf8proc_int32_t(c.point),
                                         &state))
      break;
    size += c.size;
    before = c;
  }
  return size;
}

} // namespace paceline::text
