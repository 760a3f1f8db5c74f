// A conversation, as chat models know it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// What somebody said. Both are UTF-8.
struct ChatMessage {
  std::string
      role{}; ///< "system", "user", "assistant", or what the model's template knows besides.
  std::string content{};
};

/// Names that a chat template may look for, each with its value as JSON: {"enable_thinking",
/// "false"}.
using TemplateVariables = std::vector<std::pair<std::string, std::string>>;

} // namespace paceline
