// The terminal while a race is shown.
#pragma once

#include "apps/console/terminal.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// The terminal's other screen, from construction to destruction: what was there before comes back.
class OtherScreen {
public:
  explicit OtherScreen(Output& out);
  ~OtherScreen();
  OtherScreen(const OtherScreen&) = delete;
  OtherScreen& operator=(const OtherScreen&) = delete;
  /// Replaces what it shows.
  void show(const std::vector<std::string>& lines);

private:
  Output& out_;
};

} // namespace paceline::apps
