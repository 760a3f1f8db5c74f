// What another machine says is not to be believed.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

namespace paceline::actors {

/// Throws std::invalid_argument, of which the actor dies that was told it.
inline void check_peer(bool holds, const char* otherwise) {
  if (!holds)
    throw std::invalid_argument(std::string("what another machine says cannot be: ") + otherwise);
}

/// A text of its for people: short, and on one line.
inline std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 300));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace paceline::actors
