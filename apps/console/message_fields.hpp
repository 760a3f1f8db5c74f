// A message of a conversation and its JSON: what stands beside role and content goes to the
// template.
#pragma once

#include "paceline/chat.hpp"

#include <boost/json/object.hpp>

namespace paceline::apps {

/// The fields that a message has besides role and content, for ChatMessage::fields. What is null
/// counts as missing, and so do tool_calls without one: with an empty list, as servers write it,
/// templates would take a message for one that calls tools.
TemplateVariables further_fields(const boost::json::object& message);

/// {"role", "content", ...}
boost::json::object message_json(const ChatMessage& message);

} // namespace paceline::apps
