// The terminal while a race is shown.
#pragma once

#include "apps/console/terminal.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// The terminal's other screen, from construction to destruction, which restores what was there
/// before.
class OtherScreen {
public:
  explicit OtherScreen(Output& out);
  ~OtherScreen();
  OtherScreen(const OtherScreen&) = delete;
  OtherScreen& operator=(const OtherScreen&) = delete;
  /// Replaces the contents of the screen.
  void show(const std::vector<std::string>& lines);

private:
  Output& out_;
};

} // namespace paceline::apps
