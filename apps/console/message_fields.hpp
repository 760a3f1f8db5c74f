// A message of a conversation and its JSON: fields besides role and content go to the template.
#pragma once

#include "paceline/chat.hpp"

#include <boost/json/object.hpp>

namespace paceline::apps {

/// Returns the fields that a message has besides role and content, for ChatMessage::fields. A null
/// field counts as missing, and so does an empty list of tool_calls, as servers write it: templates
/// would take the message for one that calls tools.
TemplateVariables further_fields(const boost::json::object& message);

/// Returns {"role", "content", ...}.
boost::json::object message_json(const ChatMessage& message);

} // namespace paceline::apps
