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
/// Characters with a decomposition or a combining class that Unicode 9 did not have.
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

/// Numbers that Unicode 15, and so utf8proc, does not have as such; from the same script.
constexpr std::array later_numbers = std::to_array<Range>({
    {0x10D40, 0x10D49},
    {0x116D0, 0x116E3},
    {0x11BF0, 0x11BF9},
    {0x11DE0, 0x11DE9},
    {0x16130, 0x16139},
    {0x16D70, 0x16D79},
    {0x16FF4, 0x16FF6},
    {0x1CCF0, 0x1CCF9},
    {0x1E5F1, 0x1E5FA},
});

struct Capitals {
  char32_t first;
  char32_t last;
  char32_t small; ///< Small letter of the first one; those of the others follow it.
};
/// Newer capitals, from the same script.
constexpr std::array later_capitals = std::to_array<Capitals>({
    {0x1C89, 0x1C89, 0x1C8A},
    {0xA7CB, 0xA7CB, 0x264},
    {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},
    {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},
    {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
});

struct StandIn {
  char32_t first;
  char32_t last;
  char32_t like; ///< The older character that stands for each of these.
};
/// Newer characters and their stand-ins. tools/reference/unicode_stand_ins.py prints them.
constexpr std::array later_than_unicode_14 = std::to_array<StandIn>({
    {0x897, 0x897, 0x898},       {0xCF3, 0xCF3, 0x903},       {0xECE, 0xECE, 0x816},
    {0x1B4E, 0x1B4F, 0x830},     {0x1B7F, 0x1B7F, 0x830},     {0x1C89, 0x1C89, 0xA640},
    {0x1C8A, 0x1C8A, 0x1C80},    {0x2427, 0x2429, 0x9FA},     {0x2FFC, 0x2FFF, 0x9FA},
    {0x31E4, 0x31E5, 0x9FA},     {0x31EF, 0x31EF, 0x9FA},     {0xA7CB, 0xA7CC, 0x1E00},
    {0xA7CD, 0xA7CD, 0x1D00},    {0xA7DA, 0xA7DA, 0x1E00},    {0xA7DB, 0xA7DB, 0x1D00},
    {0xA7DC, 0xA7DC, 0x1E00},    {0x105C0, 0x105F3, 0x10000}, {0x10D40, 0x10D49, 0x104A0},
    {0x10D4A, 0x10D4D, 0x10000}, {0x10D4E, 0x10D4E, 0x10780}, {0x10D4F, 0x10D4F, 0x10000},
    {0x10D50, 0x10D65, 0x10400}, {0x10D69, 0x10D6D, 0x101FD}, {0x10D6E, 0x10D6E, 0x10EAD},
    {0x10D6F, 0x10D6F, 0x10780}, {0x10D70, 0x10D85, 0x10428}, {0x10D8E, 0x10D8F, 0x1D6C1},
    {0x10EC2, 0x10EC4, 0x1EE00}, {0x10EFC, 0x10EFF, 0x101FD}, {0x1123F, 0x11240, 0x10000},
    {0x11241, 0x11241, 0x101FD}, {0x11380, 0x11389, 0x10000}, {0x1138B, 0x1138B, 0x10000},
    {0x1138E, 0x1138E, 0x10000}, {0x11390, 0x113B5, 0x10000}, {0x113B7, 0x113B7, 0x10000},
    {0x113B8, 0x113BA, 0x11000}, {0x113BB, 0x113C0, 0x101FD}, {0x113C2, 0x113C2, 0x11000},
    {0x113C5, 0x113C5, 0x11000}, {0x113C7, 0x113CA, 0x11000}, {0x113CC, 0x113CD, 0x11000},
    {0x113CE, 0x113CE, 0x101FD}, {0x113CF, 0x113CF, 0x11000}, {0x113D0, 0x113D0, 0x101FD},
    {0x113D1, 0x113D1, 0x10000}, {0x113D2, 0x113D2, 0x101FD}, {0x113D3, 0x113D3, 0x10000},
    {0x113D4, 0x113D5, 0x10100}, {0x113D7, 0x113D8, 0x10100}, {0x113E1, 0x113E2, 0x101FD},
    {0x116D0, 0x116E3, 0x104A0}, {0x11B00, 0x11B09, 0x10100}, {0x11BC0, 0x11BE0, 0x10000},
    {0x11BE1, 0x11BE1, 0x10100}, {0x11BF0, 0x11BF9, 0x104A0}, {0x11F00, 0x11F01, 0x101FD},
    {0x11F02, 0x11F02, 0x10000}, {0x11F03, 0x11F03, 0x11000}, {0x11F04, 0x11F10, 0x10000},
    {0x11F12, 0x11F33, 0x10000}, {0x11F34, 0x11F35, 0x11000}, {0x11F36, 0x11F3A, 0x101FD},
    {0x11F3E, 0x11F3F, 0x11000}, {0x11F40, 0x11F40, 0x101FD}, {0x11F41, 0x11F41, 0x11000},
    {0x11F42, 0x11F42, 0x101FD}, {0x11F43, 0x11F4F, 0x10100}, {0x11F50, 0x11F59, 0x104A0},
    {0x11F5A, 0x11F5A, 0x101FD}, {0x1342F, 0x1342F, 0x10000}, {0x13439, 0x1343F, 0x110BD},
    {0x13440, 0x13440, 0x101FD}, {0x13441, 0x13446, 0x10000}, {0x13447, 0x13455, 0x101FD},
    {0x13460, 0x143FA, 0x10000}, {0x16100, 0x1611D, 0x10000}, {0x1611E, 0x16129, 0x101FD},
    {0x1612A, 0x1612C, 0x11000}, {0x1612D, 0x1612F, 0x101FD}, {0x16130, 0x16139, 0x104A0},
    {0x16D40, 0x16D42, 0x10780}, {0x16D43, 0x16D6A, 0x10000}, {0x16D6B, 0x16D6C, 0x10780},
    {0x16D6D, 0x16D6F, 0x10100}, {0x16D70, 0x16D79, 0x104A0}, {0x18CFF, 0x18CFF, 0x10000},
    {0x1B132, 0x1B132, 0x1B001}, {0x1B155, 0x1B155, 0x1B000}, {0x1CC00, 0x1CCEF, 0x10137},
    {0x1CCF0, 0x1CCF9, 0x104A0}, {0x1CD00, 0x1CEB3, 0x10137}, {0x1D2C0, 0x1D2D3, 0x10107},
    {0x1DF25, 0x1DF2A, 0x1DF00}, {0x1E030, 0x1E06D, 0x10780}, {0x1E08F, 0x1E08F, 0x101FD},
    {0x1E4D0, 0x1E4EA, 0x10000}, {0x1E4EB, 0x1E4EB, 0x10780}, {0x1E4EC, 0x1E4EF, 0x101FD},
    {0x1E4F0, 0x1E4F9, 0x104A0}, {0x1E5D0, 0x1E5ED, 0x10000}, {0x1E5EE, 0x1E5EF, 0x101FD},
    {0x1E5F0, 0x1E5F0, 0x10000}, {0x1E5F1, 0x1E5FA, 0x104A0}, {0x1E5FF, 0x1E5FF, 0x10100},
    {0x1F6DC, 0x1F6DC, 0x10137}, {0x1F774, 0x1F776, 0x10137}, {0x1F77B, 0x1F77F, 0x10137},
    {0x1F7D9, 0x1F7D9, 0x10137}, {0x1F8B2, 0x1F8BB, 0x10137}, {0x1F8C0, 0x1F8C1, 0x10137},
    {0x1FA75, 0x1FA77, 0x10137}, {0x1FA87, 0x1FA89, 0x10137}, {0x1FA8F, 0x1FA8F, 0x10137},
    {0x1FAAD, 0x1FAAF, 0x10137}, {0x1FABB, 0x1FABF, 0x10137}, {0x1FAC6, 0x1FAC6, 0x10137},
    {0x1FACE, 0x1FACF, 0x10137}, {0x1FADA, 0x1FADC, 0x10137}, {0x1FADF, 0x1FADF, 0x10137},
    {0x1FAE8, 0x1FAE9, 0x10137}, {0x1FAF7, 0x1FAF8, 0x10137}, {0x1FBCB, 0x1FBEF, 0x10137},
    {0x2B739, 0x2B739, 0x20000}, {0x2EBF0, 0x2EE5D, 0x20000}, {0x31350, 0x323AF, 0x20000},
});

/// Returns the range of a table that holds a point, or null.
template <class Ranges>
auto range_of(const Ranges& table, char32_t point) -> const typename Ranges::value_type* {
  const auto range = std::lower_bound(
      table.begin(), table.end(), point,
      [](const typename Ranges::value_type& r, char32_t value) { return r.last < value; });
  return range != table.end() && range->first <= point ? &*range : nullptr;
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
         category == UTF8PROC_CATEGORY_NO || range_of(later_numbers, point);
}

bool is_word(char32_t point) {
  if (const StandIn* later = range_of(later_than_unicode_14, point))
    point = later->like;
  const auto category = utf8proc_category(utf8proc_int32_t(point));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL)
    return true; // letters, marks, decimal and letter numbers
  const auto in = [point](char32_t first, char32_t last) {
    return point >= first && point <= last;
  };
  return category == UTF8PROC_CATEGORY_PC || in(0x200C, 0x200D) ||
         // These are alphabetic symbols: letters in circles and squares.
         in(0x24B6, 0x24E9) || in(0x1F130, 0x1F149) || in(0x1F150, 0x1F169) || in(0x1F170, 0x1F189);
}

std::string normalize(NormalForm form, std::string_view text) {
  std::string out;
  if (is_ascii(text))
    return out = text;
  out.reserve(text.size());
  // A character that stays as it is takes no part in composition or ordering: it is a boundary.
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    if (c.point > 0x7F && range_of(later_than_unicode_9, c.point)) {
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
  constexpr char32_t capital_i_with_dot = 0x130; // the only letter that becomes two characters
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    text.remove_prefix(c.size);
    if (c.point == capital_i_with_dot)
      out += "i\u0307";
    else if (const Capitals* later = range_of(later_capitals, c.point))
      append_character(later->small + (c.point - later->first), out);
    else
      append_character(char32_t(utf8proc_tolower(utf8proc_int32_t(c.point))), out);
  }
  return out;
}

namespace {

/// The blocks of 256 characters that have any that needs a stand-in: few do.
constexpr auto later_blocks = [] {
  std::array<bool, 0x110000 / 256> out{};
  for (const StandIn& range : later_than_unicode_14)
    for (char32_t block = range.first / 256; block <= range.last / 256; ++block)
      out[block] = true;
  return out;
}();

/// Returns the block of a character of three or four bytes.
std::size_t block_of(const char* character, bool of_four) {
  const auto bits = [&](int i) { return static_cast<unsigned char>(character[i]) & 0x3Fu; };
  return of_four ? (bits(0) & 7) << 10 | bits(1) << 4 | bits(2) >> 2
                 : (bits(0) & 15) << 4 | bits(1) >> 2;
}

} // namespace

std::optional<std::string> for_unicode_14(std::string_view text) {
  std::optional<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t size = lead < 0xE0 ? 1 : lead < 0xF0 ? 3 : 4; // none is of two bytes
    if (size > 1 && later_blocks[block_of(&text[at], size == 4)]) {
      const StandIn* range =
          range_of(later_than_unicode_14, first_character(text.substr(at)).point);
      if (range) {
        std::string like;
        append_character(range->like, like);
        if (!out)
          out = text;
        out->replace(at, size, like);
      }
    }
    at += size;
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
