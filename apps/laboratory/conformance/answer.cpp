#include "apps/laboratory/conformance/answer.hpp"

#include "apps/console/limits.hpp"
#include "apps/laboratory/load/event_stream.hpp"
#include "apps/laboratory/load/server_client.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

using load::member;

std::string text_in(const json::value* within, std::string_view name) {
  const auto* value = member(within, name);
  const auto* text = value ? value->if_string() : nullptr;
  return text ? std::string(*text) : std::string();
}

/// Returns a number of a type; none: it is not one, or the type does not hold it.
template <class Number>
std::optional<Number> number_of(const json::value* value) {
  if (!value || !value->is_number())
    return std::nullopt;
  json::error_code wrong;
  const Number number = value->to_number<Number>(wrong);
  return wrong ? std::nullopt : std::optional(number);
}

/// Returns a number of tokens or characters; none: it is not one. It is so small that two add up.
std::optional<int> count_of(const json::value* value) {
  const auto count = number_of<int>(value);
  return count && *count >= 0 && *count <= limits::reported_count ? count : std::nullopt;
}

std::optional<int> count_in(const json::value* within, std::string_view name) {
  return count_of(member(within, name));
}

const json::array* list_in(const json::value* within, std::string_view name) {
  const auto* value = member(within, name);
  return value ? value->if_array() : nullptr;
}

void sort_top(Scored& scored) {
  std::ranges::stable_sort(scored.top, std::greater<>(), &std::pair<std::string, double>::second);
}

std::optional<std::string> bytes_in(const json::value& entry) {
  const auto* list = list_in(&entry, "bytes");
  if (!list)
    return std::nullopt;
  std::string bytes;
  for (const json::value& one : *list)
    bytes += char(number_of<unsigned char>(&one).value_or(0));
  return bytes;
}

/// Reads log-probabilities as chats have them, and llama.cpp's completions.
void read_content(const json::array& content, std::vector<Scored>& tokens) {
  for (const json::value& entry : content) {
    Scored scored{.token = text_in(&entry, "token"),
                  .logprob = number_of<double>(member(&entry, "logprob"))};
    scored.bytes = bytes_in(entry);
    if (const auto* top = list_in(&entry, "top_logprobs"))
      for (const json::value& one : *top)
        if (const auto logprob = number_of<double>(member(&one, "logprob")))
          scored.top.emplace_back(text_in(&one, "token"), *logprob);
    sort_top(scored);
    tokens.push_back(std::move(scored));
  }
}

/// Reads log-probabilities as completions have them: lists side by side.
void read_lists(const json::value& logprobs, std::vector<Scored>& tokens) {
  const auto* names = list_in(&logprobs, "tokens");
  const auto* values = list_in(&logprobs, "token_logprobs");
  const auto* tops = list_in(&logprobs, "top_logprobs");
  const auto* offsets = list_in(&logprobs, "text_offset");
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    Scored scored;
    if (const auto* name = (*names)[i].if_string())
      scored.token = std::string(*name);
    if (values && i < values->size())
      scored.logprob = number_of<double>(&(*values)[i]);
    const auto* top = tops && i < tops->size() ? (*tops)[i].if_object() : nullptr;
    if (top)
      for (const auto& [name, value] : *top)
        if (const auto logprob = number_of<double>(&value))
          scored.top.emplace_back(name, *logprob);
    sort_top(scored);
    if (offsets && i < offsets->size())
      scored.offset = count_of(&(*offsets)[i]);
    tokens.push_back(std::move(scored));
  }
}

void read_logprobs(const json::value* logprobs, std::vector<Scored>& tokens) {
  if (const auto* content = list_in(logprobs, "content"))
    read_content(*content, tokens);
  else if (logprobs)
    read_lists(*logprobs, tokens);
}

void read_choice(const json::value& from, Choice& choice) {
  for (const auto* text : {&from, member(&from, "message"), member(&from, "delta")})
    for (const char* name : {"reasoning_content", "text", "content"})
      choice.text += text_in(text, name);
  read_logprobs(member(&from, "logprobs"), choice.tokens);
  if (std::string reason = text_in(&from, "finish_reason"); !reason.empty())
    choice.finish_reason = std::move(reason);
}

/// Reads an answer, or a part of one.
void read_part(const json::value& from, Answer& answer) {
  if (const auto* usage = member(&from, "usage"); usage && usage->is_object()) {
    answer.prompt_tokens = count_in(usage, "prompt_tokens");
    answer.completion_tokens = count_in(usage, "completion_tokens");
    answer.total_tokens = count_in(usage, "total_tokens");
  }
  const auto* choices = list_in(&from, "choices");
  for (std::size_t i = 0; choices && i < choices->size(); ++i) {
    const json::value& one = (*choices)[i];
    const auto index = std::size_t(std::clamp(count_in(&one, "index").value_or(int(i)), 0, 1023));
    if (answer.choices.size() <= index)
      answer.choices.resize(index + 1);
    read_choice(one, answer.choices[index]);
    answer.ends += !text_in(&one, "finish_reason").empty();
  }
  if (choices && !choices->empty())
    answer.raw = from;
}

void read_stream(const std::string& body, Answer& answer) {
  load::EventStream events([&answer](const json::value& event) { read_part(event, answer); });
  events.feed(body);
  answer.error = events.error();
  if (answer.error.empty() && !events.complete())
    answer.error = "the stream ended before its answer did";
}

} // namespace

std::optional<double> Scored::listed(std::string_view name) const {
  const auto found = std::ranges::find(top, name, &std::pair<std::string, double>::first);
  return found == top.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> Choice::echoed(std::string_view prompt) const {
  for (const std::size_t begin : {0, 1}) {
    std::string_view left = prompt;
    std::size_t at = begin;
    for (; at < tokens.size() && !left.empty() && left.starts_with(tokens[at].token); ++at)
      left.remove_prefix(tokens[at].token.size());
    if (left.empty())
      return at;
  }
  return std::nullopt;
}

Answer read_answer(unsigned status, const std::string& body, bool streamed) {
  Answer answer;
  answer.status = status;
  if (status != 200) {
    answer.error = load::refusal_text(status, body);
    return answer;
  }
  if (streamed) {
    read_stream(body, answer);
  } else {
    json::error_code wrong;
    const json::value whole = json::parse(body, wrong);
    if (wrong)
      answer.error = "the answer is no JSON";
    else
      read_part(whole, answer);
  }
  if (answer.error.empty() && answer.choices.empty())
    answer.error = "the answer has no choices";
  return answer;
}

std::string excerpt(std::string_view text, std::size_t most) {
  while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xC0u) == 0x80u)
    text.remove_prefix(1); // Nor does one begin in its midst.
  std::string cut(text.substr(0, most));
  while (!cut.empty() && cut.size() < text.size() &&
         (static_cast<unsigned char>(text[cut.size()]) & 0xC0u) == 0x80u)
    cut.pop_back(); // No character is cut in two.
  return json::serialize(json::string(cut)) + (cut.size() < text.size() ? "..." : "");
}

} // namespace paceline::apps::conformance
