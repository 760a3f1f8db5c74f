#include "apps/server/openai_messages.hpp"

#include "apps/console/limits.hpp"
#include "apps/console/message_fields.hpp"
#include "apps/server/fields.hpp"
#include "apps/server/unsupported.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

constexpr std::string_view text_types[] = {"text"};
constexpr std::array roles =
    std::to_array<std::string_view>({"system", "user", "assistant", "tool", "function"});

/// Refuses parts of a message that no model here reads.
std::optional<ApiError> find_media(const Fields& fields) {
  for (const char* media : {"audio", "images", "image", "videos"})
    if (const auto* value = fields.find(media); value && !asks_for_nothing(*value))
      return invalid_value(fields.path(media),
                           fields.path(media) +
                               " is not supported, as no image, sound or file is: leave "
                               "it out");
  return std::nullopt;
}

/// Whether a message may have no content: an answer that says something else may, and its template
/// is told so.
bool may_lack_content(const Fields& fields) {
  for (const char* instead :
       {"tool_calls", "function_call", "reasoning_content", "reasoning", "refusal"})
    if (const auto* value = fields.find(instead); value && !asks_for_nothing(*value))
      return true;
  return false;
}

ApiResult<ChatMessage> read_message(const json::value& value, const std::string& name) {
  const auto* object = value.if_object();
  if (!object)
    return refuse(invalid_value(name, name + " must be an object with role and content"));
  Fields fields(*object, name);
  fields.wrong(find_media(fields));
  ChatMessage message;
  message.role = fields.text("role").value_or("");
  if (message.role == "developer") // OpenAI uses this name since o1; templates know "system".
    message.role = "system";
  if (std::find(roles.begin(), roles.end(), message.role) == roles.end())
    fields.wrong("role", fmt::format("developer, {}", fmt::join(roles, ", ")));
  if (fields.error())
    return refuse(*fields.error());
  message.fields = further_fields(*object);
  const auto* content = fields.find("content");
  if (!content && message.role == "assistant" && may_lack_content(fields)) {
    message.fields.emplace_back("content", "null");
    return message;
  }
  auto text = read_content(content ? *content : json::value(), fields.path("content"), text_types);
  if (!text)
    return refuse(std::move(text.error()));
  message.content = std::move(*text);
  return message;
}

} // namespace

ApiResult<std::string> read_content(const json::value& content, const std::string& name,
                                    std::span<const std::string_view> types) {
  if (const auto* text = content.if_string())
    return std::string(*text);
  const auto* parts = content.if_array();
  if (!parts)
    return refuse(invalid_value(name, name + " must be a string, or a list of text parts"));
  std::string whole;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string part_name = fmt::format("{}[{}]", name, i);
    const auto* part = (*parts)[i].if_object();
    if (!part)
      return refuse(invalid_value(part_name, part_name + " must be an object"));
    Fields fields(*part, part_name);
    const auto type = fields.text("type");
    if (!fields.error() && std::ranges::find(types, type.value_or("")) == types.end())
      fields.wrong("type", fmt::format("\"{}\": images, sound and files are not supported",
                                       fmt::join(types, "\" or \"")));
    const auto text = fields.text("text");
    if (!text)
      fields.wrong("text", "a string");
    if (fields.error())
      return refuse(*fields.error());
    whole += *text;
  }
  return whole;
}

ApiResult<std::vector<ChatMessage>> read_messages(const json::object& body) {
  const auto* list = body.if_contains("messages");
  if (!list || !list->is_array() || list->get_array().empty() ||
      list->get_array().size() > std::size_t(limits::messages_max))
    return refuse(
        invalid_value("messages", fmt::format("messages must be a list of 1 to {} objects "
                                              "with role and content",
                                              limits::messages_max)));
  std::vector<ChatMessage> messages;
  for (const json::value& value : list->get_array()) {
    auto message = read_message(value, fmt::format("messages[{}]", messages.size()));
    if (!message)
      return refuse(std::move(message.error()));
    messages.push_back(std::move(*message));
  }
  return messages;
}

} // namespace paceline::apps::serve
