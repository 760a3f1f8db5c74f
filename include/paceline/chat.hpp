// A conversation, as chat models know it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// Names that a chat template may look for, each with its value as JSON: {"enable_thinking",
/// "false"}.
using TemplateVariables = std::vector<std::pair<std::string, std::string>>;

/// What somebody said. Both texts are UTF-8.
struct ChatMessage {
  std::string
      role{}; ///< "system", "user", "assistant", or what the model's template knows besides.
  std::string content{};
  /// Whatever else the template may look for in a message: {"reasoning_content", "\"because\""}.
  /// One of the names above goes before what is said there: {"content", "null"}.
  TemplateVariables fields{};
};

} // namespace paceline
