#include "apps/terminal/race/screen.hpp"

namespace paceline::apps {

OtherScreen::OtherScreen(Output& out) : out_(out) {
  out_.write("\x1b[?1049h\x1b[?25l");
}

OtherScreen::~OtherScreen() {
  out_.write("\x1b[?25h\x1b[?1049l");
}

void OtherScreen::show(const std::vector<std::string>& lines) {
  std::string all = "\x1b[H";
  const char* between = "";
  for (const std::string& line : lines) {
    all += between + ("\x1b[K" + line); // Erasing a full line afterwards would hit its end.
    between = "\r\n";
  }
  out_.write(all + "\x1b[J");
}

} // namespace paceline::apps
