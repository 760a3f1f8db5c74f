#include "text/chat_template/strings.hpp"

#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

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

/// Splits a text at runs of white space; the last part is the rest of the text behind the last
/// split.
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

void append_quoted(char32_t point, char quote, std::string& out) {
  if (point == char32_t(quote) || point == '\\')
    (out += '\\') += char(point);
  else if (point == '\n')
    out += "\\n";
  else if (point == '\r')
    out += "\\r";
  else if (point == '\t')
    out += "\\t";
  else if (is_printable(point))
    append_character(point, out);
  else if (point <= 0xFF)
    out += fmt::format("\\x{:02x}", unsigned(point));
  else if (point <= 0xFFFF)
    out += fmt::format("\\u{:04x}", unsigned(point));
  else
    out += fmt::format("\\U{:08x}", unsigned(point));
}

/// Appends a UTF-16 unit as JSON escapes it.
void append_unit(char32_t unit, std::string& out) {
  out += fmt::format("\\u{:04x}", unsigned(unit));
}

/// Appends a character in the same way; returns the bytes that it had.
std::size_t append_utf16(const Character& c, std::string& out) {
  if (c.point < 0x10000) {
    append_unit(c.point, out);
  } else {
    append_unit(0xD800 + ((c.point - 0x10000) >> 10), out);
    append_unit(0xDC00 + ((c.point - 0x10000) & 0x3FF), out);
  }
  return c.size;
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

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t times, Budget& budget) {
  const std::size_t there = from.empty() ? character_count(text) + 1 : count(text, from);
  const std::size_t found = times < 0 ? there : std::min(there, std::size_t(times));
  if (!to.empty() && found > limits::template_text_bytes_max / to.size())
    mistake("the template makes a text that is too long");
  budget.spend_text(text.size() + found * to.size());
  std::string out;
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t at = from.empty() ? 0 : text.find(from);
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
    if (from.empty() && !text.empty()) {
      const std::size_t one = first_character(text).size;
      out += text.substr(0, i + 1 < found ? one : 0);
      text.remove_prefix(i + 1 < found ? one : 0);
    }
  }
  return out += text;
}

std::string aligned(std::string text, char how, std::int64_t width, std::string_view filling,
                    Budget& budget) {
  const auto size = std::int64_t(character_count(text));
  if (width <= size)
    return text;
  const std::int64_t missing = width - size;
  if (missing > limits::template_width_max)
    mistake(fmt::format("a text is wider than {} characters", limits::template_width_max));
  budget.spend_text(text.size() + std::size_t(missing) * filling.size());
  // Python's center puts the odd blank to the left if the width is odd, too.
  const auto left = std::size_t(how == '<'   ? 0
                                : how == '^' ? missing / 2
                                : how == 'c' ? missing / 2 + (missing & width & 1)
                                             : missing);
  const auto times = [&](std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i)
      out += filling;
    return out;
  };
  const bool sign =
      how == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  return text.substr(0, sign) + times(left) + text.substr(sign) +
         times(std::size_t(missing) - left);
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '\'': out += "&#39;"; break;
    case '"': out += "&#34;"; break;
    default: out += c;
    }
  return out;
}

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (; !text.empty(); text.remove_prefix(first_character(text).size))
    append_quoted(first_character(text).point, quote, out);
  return out += quote;
}

std::string json_quoted(std::string_view text, bool ascii) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view named = "\"\\\n\r\t\b\f";
    constexpr std::string_view names = "\"\\nrtbf";
    const std::size_t at = named.find(c);
    if (at != named.npos)
      (out += '\\') += names[at];
    else if (byte < 0x20 || (byte == 0x7F && ascii))
      append_unit(byte, out);
    else if (byte < 0x80 || !ascii)
      out += c;
    else
      i += append_utf16(first_character(text.substr(i)), out) - 1;
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
  const std::string_view text(buffer, std::size_t(end - buffer)); // such as "-1.25e-07"
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(buffer + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16)
    return std::string(text);
  const int digits = int(e) - (text[0] == '-'); // counts the point, if there is one
  const int places = std::max(digits - 2, 0) - exponent;
  std::string fixed = fmt::format("{:.{}f}", x, std::max(places, 0));
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

} // namespace paceline::text::jinja
