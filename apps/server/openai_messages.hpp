// The messages of a conversation, as OpenAI's API has them.
#pragma once

#include "apps/server/errors.hpp"
#include "paceline/chat.hpp"

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// Reads the messages of a request's body: at least one, `limits::messages_max` at most. What a
/// message says besides its role and content goes to the template as it is; images, sound and files
/// are refused by name. Errors name the field, such as messages[1].content.
ApiResult<std::vector<ChatMessage>> read_messages(const boost::json::object& body);

/// Reads a content, which is a string, or a list of {"type", "text"}. types: those that parts may
/// have. name: the field that it is in.
ApiResult<std::string> read_content(const boost::json::value& content, const std::string& name,
                                    std::span<const std::string_view> types);

} // namespace paceline::apps::serve
