// The functions that a chat's model may call, which the user answers.
#pragma once

#include "apps/console/chat/chat_style.hpp"
#include "apps/console/chat/tool_list.hpp"
#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <string>

namespace paceline::apps {

struct ChatTools {
  Tools functions;
  std::string listed; ///< JSON of the list, as chat templates take it.
};

/// Reads a file with a list of tools as OpenAI's API takes them, or of functions alone.
Result<ChatTools> read_chat_tools(const std::string& file);

/// Checks that a model can be shown the functions, and that a form which the request asks for can
/// stand beside their calls.
Result<void> check_chat_tools(const ChatTools& tools, const ChatStyle& style,
                              const Request& request);

} // namespace paceline::apps
