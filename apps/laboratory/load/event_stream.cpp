#include "apps/laboratory/load/event_stream.hpp"

#include "apps/console/limits.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>

namespace paceline::apps::load {
namespace {

std::string text_of(const boost::json::value* value) {
  const auto* text = value ? value->if_string() : nullptr;
  return text ? std::string(*text) : std::string();
}

std::optional<int> count_of(const boost::json::value* usage, std::string_view name) {
  const auto* value = member(usage, name);
  if (!value)
    return std::nullopt;
  boost::system::error_code wrong;
  const int number = value->to_number<int>(wrong);
  return wrong ? std::nullopt : std::optional(number);
}

/// Whether a choice of a completion or a chat brings text of the answer, or of the thinking before
/// it.
bool brings_text(const boost::json::value* choice) {
  const auto* delta = member(choice, "delta");
  for (const auto* text : {member(choice, "text"), member(delta, "content"),
                           member(delta, "reasoning_content"), member(delta, "reasoning")})
    if (!text_of(text).empty())
      return true;
  return false;
}

} // namespace

const boost::json::value* member(const boost::json::value* within, std::string_view name) {
  const auto* object = within ? within->if_object() : nullptr;
  return object ? object->if_contains(name) : nullptr;
}

std::string error_message(std::string_view body) {
  boost::system::error_code wrong;
  const auto value = boost::json::parse({body.data(), body.size()}, wrong);
  if (wrong)
    return {};
  const auto* error = member(&value, "error");
  for (const auto* said : {member(error, "message"), error, member(&value, "message")})
    if (std::string text = text_of(said); !text.empty())
      return text;
  return {};
}

int EventStream::feed(std::string_view bytes) {
  int brought = 0;
  std::size_t begin = 0;
  std::size_t unread = line_.size(); // What is before has no end of a line.
  line_ += bytes;
  for (std::size_t end = 0; (end = line_.find('\n', unread)) != std::string::npos;
       begin = unread = end + 1) {
    std::string_view line(line_.data() + begin, end - begin);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (!line.starts_with("data:"))
      continue;
    line.remove_prefix(5);
    if (line.starts_with(' '))
      line.remove_prefix(1);
    brought += take(line);
  }
  line_.erase(0, begin);
  if (line_.size() > limits::answer_bytes) {
    error_ = "the stream has a line that does not end";
    line_.clear();
  }
  return brought;
}

/// Takes an event. Returns whether it brought text.
bool EventStream::take(std::string_view data) {
  if (data == "[DONE]") {
    complete_ = true;
    return false;
  }
  boost::system::error_code wrong;
  const auto event = boost::json::parse({data.data(), data.size()}, wrong);
  if (wrong) {
    error_ = "the stream holds something that is no JSON";
    return false;
  }
  if (see_)
    see_(event);
  if (member(&event, "error"))
    error_ = error_message(data);
  if (const auto* usage = member(&event, "usage"); usage && usage->is_object()) {
    prompt_tokens_ = count_of(usage, "prompt_tokens");
    output_tokens_ = count_of(usage, "completion_tokens");
  }
  const auto* choices = member(&event, "choices");
  const auto* list = choices ? choices->if_array() : nullptr;
  if (!list || list->empty())
    return false;
  const auto* choice = &list->front();
  if (!text_of(member(choice, "finish_reason")).empty())
    complete_ = true;
  return brings_text(choice);
}

} // namespace paceline::apps::load
