#include "apps/chat/status_line.hpp"

#include "apps/screen_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {

std::string StatusLine::back() const {
  return "\x1b[A\r" + (column_ > 0 ? fmt::format("\x1b[{}C", column_) : std::string());
}

std::string StatusLine::clear() {
  if (!shown_)
    return {};
  shown_ = false;
  return "\n\r\x1b[K" + back();
}

void StatusLine::follow(std::string_view plain, int columns) {
  while (!plain.empty()) {
    const std::size_t end = std::min(plain.find_first_of("\n\t"), plain.size());
    column_ += display_width(plain.substr(0, end));
    if (column_ > columns) // the terminal wrapped it
      column_ = (column_ - 1) % columns + 1;
    plain.remove_prefix(end);
    if (plain.empty())
      return;
    column_ =
        plain[0] == '\n' ? 0 : std::min((std::min(column_, columns - 1) / 8 + 1) * 8, columns - 1);
    plain.remove_prefix(1);
  }
}

std::string StatusLine::write(std::string_view text, std::string_view plain, int columns) {
  std::string out = clear();
  out += text;
  follow(plain, std::max(columns, 1));
  // At the very end of a line terminals differ in where the cursor is: wait for more text.
  if (status_.empty() || column_ >= columns)
    return out;
  shown_ = true;
  return out + "\n\r" + std::string(clipped(status_, columns - 1)) + "\x1b[K" + back();
}

} // namespace paceline::apps
