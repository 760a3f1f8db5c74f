// What is refused of a request's functions because its model, or a form, cannot have them.
#pragma once

#include "apps/console/chat/chat_style.hpp"
#include "apps/server/openai_request.hpp"

#include <optional>

namespace paceline::apps::serve {

/// Returns why the model's answers cannot have the calls that are asked for, or not in the form
/// asked for beside them; none: they can.
std::optional<ApiError> check_tools(const ChatStyle& style, const Asked& asked);

} // namespace paceline::apps::serve
