#include "apps/server/response_input.hpp"

#include "apps/console/limits.hpp"
#include "apps/server/fields.hpp"
#include "apps/server/openai_messages.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

constexpr std::string_view said_types[] = {"input_text", "output_text", "text"};
constexpr std::string_view thought_types[] = {"reasoning_text"};

std::string as_json(const std::string& text) {
  return json::serialize(json::string(text));
}

/// Makes messages of items. An assistant's items in a row are one message.
class Conversation {
public:
  void think(const std::string& text) {
    if (content_ || !calls_.empty())
      end_turn();
    reasoning_ += text;
  }
  void say(const std::string& text) {
    if (content_ && calls_.empty())
      end_turn();
    if (!content_)
      content_.emplace();
    *content_ += text;
  }
  void call(json::object call) { calls_.push_back(std::move(call)); }
  /// Adds a message of another role.
  void add(ChatMessage message) {
    end_turn();
    messages_.push_back(std::move(message));
  }
  std::vector<ChatMessage> take() {
    end_turn();
    return std::move(messages_);
  }

private:
  void end_turn() {
    if (!content_ && calls_.empty() && reasoning_.empty())
      return;
    ChatMessage message{.role = "assistant", .content = content_.value_or(""), .fields = {}};
    if (!content_)
      message.fields.emplace_back("content", "null");
    if (!reasoning_.empty())
      message.fields.emplace_back("reasoning_content", as_json(reasoning_));
    if (!calls_.empty())
      message.fields.emplace_back("tool_calls", json::serialize(calls_));
    messages_.push_back(std::move(message));
    content_.reset();
    reasoning_.clear();
    calls_.clear();
  }

  std::vector<ChatMessage> messages_;
  std::optional<std::string> content_;
  std::string reasoning_;
  json::array calls_;
};

/// Reads a text that must be there.
std::string needed(Fields& item, std::string_view name) {
  const auto text = item.text(name);
  if (!text)
    item.wrong(name, "a string");
  return text.value_or("");
}

std::string read_texts(Fields& item, std::string_view name,
                       std::span<const std::string_view> types) {
  const auto* value = item.find(name);
  auto text = read_content(value ? *value : json::value(), item.path(name), types);
  if (text)
    return std::move(*text);
  item.wrong(std::move(text.error()));
  return {};
}

void read_message(Fields& item, Conversation& to) {
  std::string role = needed(item, "role");
  std::string text = read_texts(item, "content", said_types);
  if (role == "assistant")
    return to.say(text);
  if (role == "developer") // OpenAI uses this name since o1; templates know "system".
    role = "system";
  if (role != "system" && role != "user")
    item.wrong("role", "user, assistant, system or developer");
  to.add({.role = std::move(role), .content = std::move(text), .fields = {}});
}

void read_call(Fields& item, Conversation& to) {
  to.call(
      {{"id", needed(item, "call_id")},
       {"type", "function"},
       {"function", {{"name", needed(item, "name")}, {"arguments", needed(item, "arguments")}}}});
}

void read_result(Fields& item, Conversation& to) {
  const std::string id = needed(item, "call_id");
  to.add({.role = "tool",
          .content = read_texts(item, "output", said_types),
          .fields = {{"tool_call_id", as_json(id)}}});
}

/// Reads what a model thought. A summary, or what another server has encrypted, is not what it
/// thought.
void read_reasoning(Fields& item, Conversation& to) {
  if (item.find("content"))
    to.think(read_texts(item, "content", thought_types));
}

void read_item(Fields& item, Conversation& to) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message")
    read_message(item, to);
  else if (type == "function_call")
    read_call(item, to);
  else if (type == "function_call_output")
    read_result(item, to);
  else if (type == "reasoning")
    read_reasoning(item, to);
  else
    item.wrong("type", "message, function_call, function_call_output or reasoning");
}

std::optional<ApiError> read_items(const json::object& body, Conversation& to) {
  const auto* input = body.if_contains("input");
  if (const auto* text = input ? input->if_string() : nullptr) {
    to.add({.role = "user", .content = std::string(*text), .fields = {}});
    return std::nullopt;
  }
  const auto* items = input ? input->if_array() : nullptr;
  if (!items || items->empty() || items->size() > std::size_t(limits::messages_max))
    return invalid_value("input", fmt::format("input must be a string, or a list of 1 to {} items",
                                              limits::messages_max));
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string name = fmt::format("input[{}]", i);
    const auto* object = (*items)[i].if_object();
    if (!object)
      return invalid_value(name, name + " must be an object");
    Fields item(*object, name);
    read_item(item, to);
    if (item.error())
      return item.error();
  }
  return std::nullopt;
}

/// Puts instructions first. Most templates take one system message.
void instruct(std::vector<ChatMessage>& messages, const std::string& instructions) {
  if (!messages.empty() && messages.front().role == "system")
    messages.front().content = instructions + "\n\n" + messages.front().content;
  else
    messages.insert(messages.begin(),
                    ChatMessage{.role = "system", .content = instructions, .fields = {}});
}

} // namespace

ApiResult<std::vector<ChatMessage>> read_input(const json::object& body) {
  Conversation conversation;
  if (auto wrong = read_items(body, conversation))
    return refuse(std::move(*wrong));
  auto messages = conversation.take();
  Fields fields(body);
  if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty())
    instruct(messages, *instructions);
  if (fields.error())
    return refuse(*fields.error());
  if (messages.empty())
    return refuse(invalid_value("input", "input must have a message"));
  return messages;
}

} // namespace paceline::apps::serve
