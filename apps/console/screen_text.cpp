#include "apps/console/screen_text.hpp"

#include "apps/console/terminal.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace paceline::apps {
namespace {

struct Character {
  char32_t point;
  std::size_t size;
};

/// Decodes the first character; bytes that are none count as U+FFFD.
Character first_of(std::string_view text) {
  utf8proc_int32_t point = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     utf8proc_ssize_t(text.size()), &point);
  return size > 0 ? Character{char32_t(point), std::size_t(size)} : Character{0xFFFD, 1};
}

int width_of(char32_t point) {
  return point == '\t' ? 1 : utf8proc_charwidth(utf8proc_int32_t(point));
}

std::string utf8(char32_t point) {
  utf8proc_uint8_t bytes[4] = {};
  const auto size = utf8proc_encode_char(utf8proc_int32_t(point), bytes);
  return {reinterpret_cast<const char*>(bytes), std::size_t(size)};
}

bool turns_direction(char32_t point) {
  return (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

} // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_of(text);
    if (c.point < 0x20 && c.point != '\n' && c.point != '\t')
      out += utf8(0x2400 + c.point); // These are the Control Pictures.
    else if (c.point == 0x7F)
      out += utf8(0x2421);
    else if ((c.point >= 0x80 && c.point < 0xA0) || turns_direction(c.point))
      out += utf8(0xFFFD);
    else
      out += text.substr(0, c.size);
    text.remove_prefix(c.size);
  }
  return out;
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, first_of(text).size);
}

int display_width(std::string_view text) {
  int width = 0;
  for (; !text.empty(); text.remove_prefix(first_of(text).size))
    width += width_of(first_of(text).point);
  return width;
}

std::string_view clipped(std::string_view text, int columns) {
  std::size_t end = 0;
  for (int width = 0; end < text.size(); end += first_of(text.substr(end)).size) {
    width += width_of(first_of(text.substr(end)).point);
    if (width > columns)
      break;
  }
  return text.substr(0, end);
}

std::string fitted(std::string_view text, int columns) {
  std::string out(clipped(text, columns));
  out.append(std::size_t(std::max(columns - display_width(out), 0)), ' ');
  return out;
}

std::vector<std::string> wrapped(std::string_view text, int columns) {
  std::vector<std::string> lines{""};
  int width = 0;
  for (; !text.empty(); text.remove_prefix(first_of(text).size)) {
    const Character c = first_of(text);
    const int own = width_of(c.point);
    if (c.point == '\n' || width + own > columns) {
      lines.emplace_back();
      width = 0;
    }
    if (c.point == '\n')
      continue;
    lines.back() += c.point == '\t' ? " " : text.substr(0, c.size);
    width += own;
  }
  return lines;
}

std::vector<std::string> wrapped_words(std::string_view text, int columns) {
  std::vector<std::string> lines{""};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const bool fits = display_width(lines.back()) + 1 + display_width(word) <= columns;
    if (!lines.back().empty())
      fits ? lines.back().append(" ") : lines.emplace_back();
    const auto parts = wrapped(word, columns);
    lines.back() += parts.front();
    lines.insert(lines.end(), parts.begin() + 1, parts.end());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string for_errors(const std::string& text) {
  if (!errors_are_terminal())
    return text;
  return in_lines(text, screen_size().columns) + (text.ends_with('\n') ? "\n" : "");
}

std::string in_lines(std::string_view text, int columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    for (const std::string& line : wrapped_words(text.substr(0, end), columns))
      out += line + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!out.empty())
    out.pop_back();
  return out;
}

} // namespace paceline::apps
