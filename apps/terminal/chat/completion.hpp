// What Tab adds to a line of a chat.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

struct ChatCompletion {
  std::string rest;               ///< To put behind the line: as far as all words go together.
  std::vector<std::string> words; ///< That could stand there: commands, models, files, values.
};
/// line: up to the cursor. What is said is not completed.
ChatCompletion complete_chat_line(std::string_view line);

} // namespace paceline::apps
