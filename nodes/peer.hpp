// Checks of what another machine says, which is not to be believed.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

namespace paceline::nodes {

/// Throws std::invalid_argument unless `holds`. The actor that was told dies of it, unless it calls
/// `believe`.
inline void check_peer(bool holds, const char* otherwise) {
  if (!holds)
    throw std::invalid_argument(std::string("what was said cannot be: ") + otherwise);
}

/// Calls `take`, which takes a value of another machine. If that value is invalid, as `check_peer`
/// found, the machine is given up: `give_up(why)`.
template <class Take, class GiveUp>
void believe(const Take& take, const GiveUp& give_up) {
  try {
    take();
  } catch (const std::invalid_argument& lie) {
    give_up(lie.what());
  }
}

/// Returns a peer's text for people, short and on one line.
inline std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 300));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace paceline::nodes
