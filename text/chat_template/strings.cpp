#include "text/chat_template/strings.hpp"

#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <utf8proc.h>

namespace paceline::text::jinja {
namespace {

bool holds(std::string_view those, char32_t point) {
  while (!those.empty()) {
    const Character c = first_character(those);
    if (c.point == point)
      return true;
    those.remove_prefix(c.size);
  }
  return false;
}

/// Words between runs of white space; the rest of the text behind the last split.
std::vector<std::string_view> split_words(std::string_view text, std::int64_t splits) {
  std::vector<std::string_view> out;
  for (text = strip(text, Side::left); !text.empty(); text = strip(text, Side::left)) {
    if (splits >= 0 && std::int64_t(out.size()) == splits) {
      out.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      const Character c = first_character(text.substr(end));
      if (is_space(c.point))
        break;
      end += c.size;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<std::string_view> split_words_from_right(std::string_view text, std::int64_t splits) {
  std::vector<std::string_view> out;
  for (text = strip(text, Side::right); !text.empty(); text = strip(text, Side::right)) {
    if (splits >= 0 && std::int64_t(out.size()) == splits) {
      out.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      const Character c = last_character(text.substr(0, begin));
      if (is_space(c.point))
        break;
      begin -= c.size;
    }
    out.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// Every character through `to`, which sees whether a letter came before.
template <class Map>
std::string mapped(std::string_view text, Map to) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (bool first = true; !text.empty(); first = false) {
    const Character c = first_character(text);
    text.remove_prefix(c.size);
    append_character(char32_t(to(utf8proc_int32_t(c.point), first, in_word)), out);
    const auto category = utf8proc_category(utf8proc_int32_t(c.point));
    in_word = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
  }
  return out;
}

bool printable(char32_t point) {
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

void append_quoted(char32_t point, char quote, std::string& out) {
  if (point == char32_t(quote) || point == '\\')
    (out += '\\') += char(point);
  else if (point == '\n')
    out += "\\n";
  else if (point == '\r')
    out += "\\r";
  else if (point == '\t')
    out += "\\t";
  else if (printable(point))
    append_character(point, out);
  else if (point <= 0xFF)
    out += fmt::format("\\x{:02x}", unsigned(point));
  else if (point <= 0xFFFF)
    out += fmt::format("\\u{:04x}", unsigned(point));
  else
    out += fmt::format("\\U{:08x}", unsigned(point));
}

} // namespace

std::size_t character_count(std::string_view text) {
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (; !text.empty(); text.remove_prefix(out.back().size()))
    out.push_back(text.substr(0, first_character(text).size));
  return out;
}

bool is_space(char32_t point) {
  return (point >= 0x1C && point <= 0x1F) || is_white_space(point);
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> those) {
  const auto goes = [&](char32_t point) { return those ? holds(*those, point) : is_space(point); };
  while (side != Side::right && !text.empty()) {
    const Character c = first_character(text);
    if (!goes(c.point))
      break;
    text.remove_prefix(c.size);
  }
  while (side != Side::left && !text.empty()) {
    const Character c = last_character(text);
    if (!goes(c.point))
      break;
    text.remove_suffix(c.size);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t splits,
                                    bool from_right) {
  if (!separator)
    return from_right ? split_words_from_right(text, splits) : split_words(text, splits);
  std::vector<std::string_view> out;
  while (splits < 0 || std::int64_t(out.size()) < splits) {
    const std::size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == std::string_view::npos)
      break;
    const std::string_view before = text.substr(0, at);
    const std::string_view after = text.substr(at + separator->size());
    out.push_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  out.push_back(text);
  if (from_right)
    std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  constexpr std::u32string_view ends = U"\n\r\v\f\x1C\x1D\x1E\x85\u2028\u2029";
  std::vector<std::string_view> out;
  while (!text.empty()) {
    std::size_t size = 0;
    std::size_t end = 0;
    for (; end < text.size() && size == 0;
         end += size ? 0 : first_character(text.substr(end)).size) {
      const Character c = first_character(text.substr(end));
      if (ends.find(c.point) != ends.npos)
        size = text.substr(end).starts_with("\r\n") ? 2 : c.size;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end + size);
  }
  return out;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t times) {
  std::string out;
  for (std::size_t at = 0; times != 0; times -= times > 0) {
    at = text.find(from);
    if (at == text.npos)
      break;
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out += text;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

std::string upper(std::string_view text) {
  return mapped(text, [](auto c, bool, bool) { return utf8proc_toupper(c); });
}

std::string lower(std::string_view text) {
  return lower_case(text);
}

std::string capitalize(std::string_view text) {
  return mapped(text, [](auto c, bool first, bool) {
    return first ? utf8proc_totitle(c) : utf8proc_tolower(c);
  });
}

std::string title(std::string_view text) {
  return mapped(text, [](auto c, bool, bool in_word) {
    return in_word ? utf8proc_tolower(c) : utf8proc_totitle(c);
  });
}

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (; !text.empty(); text.remove_prefix(first_character(text).size))
    append_quoted(first_character(text).point, quote, out);
  return out += quote;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view named = "\"\\\n\r\t\b\f";
    constexpr std::string_view names = "\"\\nrtbf";
    const std::size_t at = named.find(c);
    if (at != named.npos)
      (out += '\\') += names[at];
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", unsigned(c));
    else
      out += c;
  }
  return out += '"';
}

std::string number_text(double x) {
  if (std::isnan(x))
    return "nan";
  if (std::isinf(x))
    return x < 0 ? "-inf" : "inf";
  char buffer[32] = {};
  const auto* end =
      std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, std::size_t(end - buffer)); // "-1.25e-07"
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(buffer + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16)
    return std::string(text);
  const int digits = int(e) - (text[0] == '-'); // with the point, if there is one
  const int places = std::max(digits - 2, 0) - exponent;
  std::string fixed = fmt::format("{:.{}f}", x, std::max(places, 0));
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

} // namespace paceline::text::jinja
