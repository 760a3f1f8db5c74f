// What another machine says is not to be believed.
#pragma once

#include <stdexcept>
#include <string>

namespace paceline::actors {

/// Throws std::invalid_argument, of which the actor dies that was told it.
inline void check_peer(bool holds, const char* otherwise) {
  if (!holds)
    throw std::invalid_argument(std::string("what another machine says cannot be: ") + otherwise);
}

} // namespace paceline::actors
