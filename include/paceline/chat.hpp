// A conversation, as chat models know it.
#pragma once

#include <string>

namespace paceline {

/// What somebody said. Both are UTF-8.
struct ChatMessage {
  std::string role; ///< "system", "user", "assistant", or what the model's template knows besides.
  std::string content;
};

} // namespace paceline
