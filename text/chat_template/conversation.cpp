#include "text/chat_template/conversation.hpp"

#include "text/json.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

namespace json = boost::json;

/// Counts a value and all that is in it.
std::size_t count(const json::value& value) {
  std::size_t sum = 1;
  if (const auto* items = value.if_array())
    for (const json::value& each : *items)
      sum += count(each);
  if (const auto* members = value.if_object())
    for (const auto& [name, each] : *members)
      sum += count(each);
  return sum;
}

Value value_of(const json::value& from) {
  switch (from.kind()) {
  case json::kind::null: return Value(None{});
  case json::kind::bool_: return Value(from.get_bool());
  case json::kind::int64: return Value(from.get_int64());
  case json::kind::uint64: return Value(double(from.get_uint64()));
  case json::kind::double_: return Value(from.get_double());
  case json::kind::string: return Value(sanitize_utf8(std::string_view(from.get_string())));
  case json::kind::array: {
    List items;
    for (const json::value& each : from.get_array())
      items.push_back(value_of(each));
    return Value::list(std::move(items));
  }
  case json::kind::object: {
    Members members;
    for (const auto& [name, each] : from.get_object())
      members.emplace_back(std::string(name), value_of(each));
    return Value::dict(std::move(members));
  }
  }
  return Value(None{});
}

tl::unexpected<Error> too_much(const std::string& name, const std::string& what, std::string hint) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} {}", name, what), std::move(hint));
}

/// Parses JSON. Texts may be long; any other value takes many bytes of memory for a byte of JSON.
Result<json::value> parse(const std::string& name, const std::string& text) {
  const bool is_text = text.starts_with('"');
  if (!is_text && text.size() > limits::template_value_bytes_max)
    return too_much(name, fmt::format("has {} bytes of JSON", text.size()),
                    fmt::format("give at most {}", limits::template_value_bytes_max));
  json::parse_options options;
  options.max_depth = limits::json_depth_max;
  json::error_code failed;
  json::value value = json::parse(text, failed, {}, options);
  if (failed == json::error::too_deep)
    return too_much(name, "is nested too deeply",
                    fmt::format("give at most {} levels", limits::json_depth_max));
  if (failed)
    return fail(ErrorCode::invalid_argument, name + " is no JSON", "give its value as JSON");
  return value;
}

Result<void> check_names(const TemplateVariables& named, const std::string& of, const char* what) {
  if (named.size() > limits::template_names_max)
    return too_much(of, fmt::format("has {} {}", named.size(), what),
                    fmt::format("give at most {}", limits::template_names_max));
  return {};
}

/// Sets a member as a dict does: the last of one name counts, at the place of the first.
void put(Members& members, std::string name, Value value) {
  const auto known = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.first == name; });
  if (known != members.end())
    known->second = std::move(value);
  else
    members.emplace_back(std::move(name), std::move(value));
}

} // namespace

Result<Value> ConversationReader::value(const std::string& name, const std::string& json) {
  return parse(name, json).and_then([&](const json::value& parsed) -> Result<Value> {
    const std::size_t values = count(parsed);
    if (values > values_left_)
      return too_much(name, "has too many values",
                      fmt::format("give a conversation at most {} besides its texts",
                                  limits::template_values_max));
    values_left_ -= values;
    return value_of(parsed);
  });
}

Result<Value> ConversationReader::message(const ChatMessage& message, std::size_t index) {
  const auto few = check_names(message.fields, fmt::format("messages[{}]", index), "more fields");
  if (!few)
    return tl::unexpected(few.error());
  Members members{{"role", Value(sanitize_utf8(message.role))},
                  {"content", Value(sanitize_utf8(message.content))}};
  for (const auto& [name, json] : message.fields) {
    auto read = value(fmt::format("messages[{}].{}", index, shown(name)), json);
    if (!read)
      return tl::unexpected(read.error());
    put(members, sanitize_utf8(name), std::move(*read));
  }
  return Value::dict(std::move(members));
}

Result<Value> ConversationReader::messages(std::span<const ChatMessage> messages) {
  List list;
  for (const ChatMessage& each : messages) {
    auto read = message(each, list.size());
    if (!read)
      return tl::unexpected(read.error());
    list.push_back(std::move(*read));
  }
  return Value::list(std::move(list));
}

Result<Members> ConversationReader::variables(const TemplateVariables& variables) {
  if (const auto few = check_names(variables, "the conversation", "variables"); !few)
    return tl::unexpected(few.error());
  Members members;
  for (const auto& [name, json] : variables) {
    auto read = value("the variable " + shown(name), json);
    if (!read)
      return tl::unexpected(read.error());
    put(members, sanitize_utf8(name), std::move(*read));
  }
  return members;
}

} // namespace paceline::text::jinja
