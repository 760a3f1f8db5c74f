#include "apps/terminal/chat/conversation.hpp"

#include "apps/console/input.hpp"
#include "apps/console/message_fields.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace paceline::apps {
namespace json = boost::json;
namespace {

constexpr const char* format_name = "paceline-chat-1";

/// Returns a member that is a text; null: it is not there, or something else.
const json::string* text_in(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value ? value->if_string() : nullptr;
}

tl::unexpected<Error> not_a_chat(const std::string& name, const std::string& why) {
  return fail(ErrorCode::corrupt, fmt::format("{} is not a saved chat: {}", name, why),
              "give a file that /save has written");
}

} // namespace

std::vector<ChatMessage> Conversation::messages() const {
  std::vector<ChatMessage> all;
  if (!system.empty())
    all.push_back({"system", system});
  all.insert(all.end(), turns.begin() + std::ptrdiff_t(first_read), turns.end());
  return all;
}

std::size_t Conversation::drop_oldest() {
  const auto first = turns.begin() + std::ptrdiff_t(first_read);
  if (first == turns.end())
    return 0;
  const auto next = std::ranges::find(first + 1, turns.end(), "user", &ChatMessage::role);
  if (next == turns.end())
    return 0;
  first_read += std::size_t(next - first);
  return std::size_t(next - first);
}

std::string to_json(const Conversation& conversation) {
  json::array messages;
  for (const ChatMessage& turn : conversation.turns)
    messages.push_back(message_json(turn));
  const json::object object{
      {"format", format_name}, {"system", conversation.system}, {"messages", std::move(messages)}};
  return json::serialize(object) + "\n";
}

Result<Conversation> conversation_from_json(const std::string& name, const std::string& text) {
  json::error_code failed;
  const json::value root = json::parse(text, failed);
  if (failed || !root.is_object())
    return not_a_chat(name, "it holds no JSON object");
  const json::object& object = root.get_object();
  if (const json::string* format = text_in(object, "format"); !format || *format != format_name)
    return not_a_chat(name, fmt::format("its format is not {}", format_name));
  Conversation out;
  if (const json::string* system = text_in(object, "system"))
    out.system = std::string(*system);
  const json::value* messages = object.if_contains("messages");
  if (!messages || !messages->is_array())
    return not_a_chat(name, "it has no messages");
  for (const json::value& message : messages->get_array()) {
    const json::object* fields = message.if_object();
    const json::string* role = fields ? text_in(*fields, "role") : nullptr;
    const json::string* content = fields ? text_in(*fields, "content") : nullptr;
    if (!role || !content)
      return not_a_chat(name,
                        fmt::format("message {} lacks a role or a content", out.turns.size() + 1));
    out.turns.push_back({std::string(*role), std::string(*content), further_fields(*fields)});
  }
  return out;
}

Result<void> save(const Conversation& conversation, const std::string& path) {
  return base::write_file(path, [text = to_json(conversation)](std::FILE* out) {
    std::fwrite(text.data(), 1, text.size(), out);
  });
}

Result<Conversation> load(const std::string& path) {
  return read_text({{}, path}).and_then([&](const std::string& text) {
    return conversation_from_json(path, text);
  });
}

} // namespace paceline::apps
