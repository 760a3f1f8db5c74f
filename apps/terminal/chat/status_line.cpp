#include "apps/terminal/chat/status_line.hpp"

#include "apps/console/screen_text.hpp"

#include <utility>

namespace paceline::apps {
namespace {

// All terminals since the VT100 know these codes.
constexpr const char* erase_below = "\033[J";              // Erases from the cursor on.
constexpr const char* make_line_below = "\033D\033[A";     // Scrolls at the screen's end.
constexpr const char* to_line_below = "\0337\r\n\033[?7l"; // Turns wrapping off there.
constexpr const char* back_to_text = "\033[?7h\0338";

} // namespace

std::string StatusLine::clear() {
  return std::exchange(shown_, false) ? erase_below : "";
}

std::string StatusLine::write(std::string_view text, int columns, bool room) {
  std::string out = clear();
  out += text;
  if (status_.empty() || !room)
    return out;
  shown_ = true;
  out += make_line_below;
  out += to_line_below;
  out += clipped(status_, columns - 1);
  return out + back_to_text;
}

} // namespace paceline::apps
