#include "apps/console/message_fields.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace paceline::apps {
namespace json = boost::json;
namespace {

bool says_nothing(std::string_view name, const json::value& value) {
  const auto* list = value.if_array();
  return value.is_null() || (name == "tool_calls" && list && list->empty());
}

} // namespace

TemplateVariables further_fields(const json::object& message) {
  TemplateVariables fields;
  for (const auto& [name, value] : message)
    if (name != "role" && name != "content" && !says_nothing(name, value))
      fields.emplace_back(name, json::serialize(value));
  return fields;
}

json::object message_json(const ChatMessage& message) {
  json::object object{{"role", message.role}, {"content", message.content}};
  for (const auto& [name, text] : message.fields) {
    json::error_code failed;
    json::value value = json::parse(text, failed);
    if (!failed)
      object[name] = std::move(value);
  }
  return object;
}

} // namespace paceline::apps
