// What another machine says is not to be believed.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

namespace paceline::nodes {

/// Throws std::invalid_argument, of which the actor dies that was told it, unless it asks whether
/// to `believe`.
inline void check_peer(bool holds, const char* otherwise) {
  if (!holds)
    throw std::invalid_argument(std::string("what was said cannot be: ") + otherwise);
}

/// Has `take` take what another machine says; where that cannot be, as `check_peer` found, the
/// machine is given up: `give_up(why)`.
template <class Take, class GiveUp>
void believe(const Take& take, const GiveUp& give_up) {
  try {
    take();
  } catch (const std::invalid_argument& lie) {
    give_up(lie.what());
  }
}

/// A text of its for people: short, and on one line.
inline std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 300));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace paceline::nodes
