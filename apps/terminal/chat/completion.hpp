// Completion of a chat's lines by Tab.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

struct ChatCompletion {
  std::string rest;               ///< Text behind the line that all words have in common.
  std::vector<std::string> words; ///< Possible words there: commands, models, files, values.
};
/// Completes a command; text for the model is not completed. line: up to the cursor.
ChatCompletion complete_chat_line(std::string_view line);

} // namespace paceline::apps
