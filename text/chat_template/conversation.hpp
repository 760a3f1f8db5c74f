// Makes a template's values of what comes from outside: messages, and variables.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"
#include "text/chat_template/value.hpp"
#include "text/limits.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace paceline::text::jinja {

/// Reads one conversation. JSON means what it means to Python; a value that exceeds the limits is
/// an error that names it.
class ConversationReader {
public:
  Result<Members> variables(const TemplateVariables& variables);
  /// Returns a list of dicts: role, content, and each message's further fields.
  Result<Value> messages(std::span<const ChatMessage> messages);

private:
  /// name: used in errors.
  Result<Value> value(const std::string& name, const std::string& json);
  Result<Value> message(const ChatMessage& message, std::size_t index);

  std::size_t values_left_ = limits::template_values_max;
};

} // namespace paceline::text::jinja
