// The input of a response's request, as OpenAI's API has it, read as a conversation.
#pragma once

#include "apps/server/errors.hpp"
#include "paceline/chat.hpp"

#include <boost/json/object.hpp>
#include <vector>

namespace paceline::apps::serve {

/// Reads `instructions` and `input`: a text, or items (messages, calls, their results, reasoning),
/// `limits::messages_max` at most. What an assistant thinks, says and calls in a row is one
/// message; instructions and a system message that they stand before are one. Errors name the
/// field, such as input[1].content.
ApiResult<std::vector<ChatMessage>> read_input(const boost::json::object& body);

} // namespace paceline::apps::serve
