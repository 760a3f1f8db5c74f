#include "apps/console/chat/chat_style.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace paceline::apps {
namespace json = boost::json;
namespace {

/// A call's arguments, as JSON of an object and as templates would write them.
constexpr const char* probe = R"({"probe": 1})";

/// Renders a conversation with one call. arguments: JSON of their value.
Result<std::string> rendered(const Engine& engine, const std::string& arguments) {
  const std::string calls = R"([{"id": "abcdefghi", "type": "function", "function": )"
                            R"({"name": "f", "arguments": )" +
                            arguments + "}}]";
  return engine.render_chat(
      {{"user", "q", {}},
       {"assistant", "", {{"tool_calls", calls}}}, // some templates take no null for content
       {"tool", "r", {{"tool_call_id", "\"abcdefghi\""}, {"name", "\"f\""}}}});
}

/// Finds out what a template makes of arguments. JSON that is quoted again, or a Python dict, is
/// not what a model was trained on.
ChatStyle::Arguments wanted_arguments(const Engine& engine) {
  const auto of_text = rendered(engine, json::serialize(json::string(probe)));
  const auto of_object = rendered(engine, probe);
  const bool takes_texts = of_text && of_text->find(probe) != std::string::npos;
  const bool takes_objects = of_object && of_object->find("{'probe'") == std::string::npos;
  if (takes_texts == takes_objects)
    return ChatStyle::Arguments::any;
  return takes_texts ? ChatStyle::Arguments::texts : ChatStyle::Arguments::objects;
}

bool is_special(const Engine& engine, std::string_view mark) {
  if (mark.empty())
    return false;
  const auto tokens = engine.tokenize(std::string(mark), false, true);
  return tokens.size() == 1 && engine.token_bytes(tokens.front()).empty();
}

template <class Format>
const Format* chosen(const std::optional<std::string>& name, const Format* by_name,
                     const Format* by_template) {
  return name ? by_name : by_template;
}

void convert(json::value& arguments, ChatStyle::Arguments wanted) {
  if (wanted == ChatStyle::Arguments::texts && arguments.is_object())
    arguments = json::string(json::serialize(arguments));
  const auto* text = wanted == ChatStyle::Arguments::objects ? arguments.if_string() : nullptr;
  if (!text)
    return;
  json::error_code failed;
  json::parse_options options;
  options.max_depth = std::size_t(limits::json_depth_max);
  json::value read = json::parse(*text, failed, {}, options);
  if (!failed && read.is_object())
    arguments = std::move(read);
}

/// calls: JSON of a message's field, which may be anything.
std::string converted(const std::string& calls, ChatStyle::Arguments wanted) {
  json::error_code failed;
  json::parse_options options;
  options.max_depth = std::size_t(limits::json_depth_max);
  json::value read = json::parse(calls, failed, {}, options);
  if (failed || !read.is_array())
    return calls;
  for (json::value& call : read.get_array()) {
    auto* object = call.if_object();
    auto* function = object ? object->if_contains("function") : nullptr;
    auto* inner = function ? function->if_object() : nullptr;
    if (auto* arguments = inner ? inner->if_contains("arguments") : nullptr)
      convert(*arguments, wanted);
  }
  return json::serialize(read);
}

/// Whether a message has both a text and calls.
bool says_and_calls(const ChatMessage& message) {
  return !message.content.empty() && std::ranges::any_of(message.fields, [](const auto& field) {
    return field.first == "tool_calls";
  });
}

/// Gives what a model thought the name that its template asks for: clients send back what servers
/// write, and gpt-oss's template calls it `thinking`. Beside a text and calls that template takes
/// none.
void name_reasoning(std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages)
    for (auto& [name, value] : message.fields)
      if (name == "reasoning_content" && !says_and_calls(message))
        name = "thinking";
}

void convert_arguments(std::vector<ChatMessage>& messages, ChatStyle::Arguments wanted) {
  for (ChatMessage& message : messages)
    for (auto& [name, value] : message.fields)
      if (name == "tool_calls")
        value = converted(value, wanted);
}

} // namespace

ChatStyle style_of(const Engine& engine, const ParserNames& names) {
  const std::string& source = engine.chat_template();
  ChatStyle style;
  style.tools = chosen(names.tools, text::tool_format(names.tools.value_or("")),
                       text::tool_format_of(source));
  style.reasoning = chosen(names.reasoning, text::reasoning_format(names.reasoning.value_or("")),
                           text::reasoning_format_of(source));
  style.shows_tools = text::shows_tools(source);
  style.arguments = wanted_arguments(engine);
  style.calls_reasoning_thinking = source.find("message.thinking") != std::string::npos &&
                                   source.find("reasoning_content") == std::string::npos;
  if (style.tools) {
    style.special_opening = is_special(engine, style.tools->opening);
    style.special_arguments =
        style.tools->body == text::ToolFormat::Body::named && is_special(engine, arguments_mark);
  }
  if (style.reasoning)
    style.special_reasoning = is_special(engine, style.reasoning->opening) ||
                              is_special(engine, style.reasoning->closing);
  return style;
}

std::vector<ChatMessage> as_template_wants(const ChatStyle& style,
                                           std::vector<ChatMessage> messages) {
  if (style.arguments != ChatStyle::Arguments::any)
    convert_arguments(messages, style.arguments);
  if (style.calls_reasoning_thinking)
    name_reasoning(messages);
  return messages;
}

} // namespace paceline::apps
