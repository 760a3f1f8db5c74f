#include "text/chat_tokens.hpp"

#include "text/blanks.hpp"
#include "text/limits.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>

namespace paceline::text {
namespace {

namespace json = boost::json;

/// Whether the text has the mark, or JSON's escape of it: each mark is one character of four
/// hexadecimal digits.
bool has(std::string_view text, std::string_view mark, std::string_view escape) {
  const auto alike = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  return text.find(mark) != text.npos || !std::ranges::search(text, escape, alike).empty();
}

/// Returns a character that occurs nowhere in messages and variables; empty: there is none. The
/// candidates belong to no language: Unicode reserves them for a program's own use.
std::string_view free_mark(std::span<const ChatMessage> messages,
                           const TemplateVariables& variables) {
  struct Mark {
    std::string_view text;
    std::string_view escape;
  };
  constexpr Mark marks[] = {{"\uFDD0", R"(\ufdd0)"}, {"\uFDD1", R"(\ufdd1)"},
                            {"\uFDD2", R"(\ufdd2)"}, {"\uFDD3", R"(\ufdd3)"},
                            {"\uFDD4", R"(\ufdd4)"}, {"\uFDD5", R"(\ufdd5)"},
                            {"\uFDD6", R"(\ufdd6)"}, {"\uFDD7", R"(\ufdd7)"}};
  const auto is_free = [&](const Mark& mark) {
    const auto in = [&](std::string_view text) { return has(text, mark.text, mark.escape); };
    const auto in_any = [&](const TemplateVariables& named) {
      return std::ranges::any_of(named, [&](const auto& v) { return in(v.first) || in(v.second); });
    };
    return !in_any(variables) && std::ranges::none_of(messages, [&](const ChatMessage& m) {
      return in(m.role) || in(m.content) || in_any(m.fields);
    });
  };
  const auto* found = std::ranges::find_if(marks, is_free);
  return found != std::end(marks) ? found->text : std::string_view();
}

/// Marks special tokens in the strings of a JSON value, however they are escaped. A text that is
/// not JSON stays as it is: the template reports what is wrong with it.
class JsonMarker {
public:
  JsonMarker(const Tokenizer& tokenizer, std::string_view mark)
      : tokenizer_(tokenizer), mark_(mark) {}

  void mark(std::string& text) const {
    json::error_code failed;
    json::parse_options options;
    options.max_depth = limits::json_depth_max;
    const json::value value = json::parse(text, failed, {}, options);
    if (!failed)
      text = json::serialize(marked(value));
  }

private:
  std::string marked(std::string_view text) const { return tokenizer_.mark_special(text, mark_); }
  json::value marked(const json::value& value) const {
    if (const auto* text = value.if_string())
      return json::string(marked(std::string_view(*text)));
    if (const auto* list = value.if_array()) {
      json::array out;
      for (const json::value& element : *list)
        out.push_back(marked(element));
      return out;
    }
    if (const auto* object = value.if_object()) {
      json::object out;
      for (const auto& [key, member] : *object)
        out[marked(std::string_view(key))] = marked(member);
      return out;
    }
    return value;
  }

  const Tokenizer& tokenizer_;
  std::string_view mark_;
};

/// Cuts the text behind its last message, without what the template writes there.
Result<std::string> cut_behind_last(std::string text, std::string_view last) {
  const std::string_view core = trimmed(last);
  const auto at = text.rfind(core);
  if (core.empty() || at == text.npos)
    return fail(ErrorCode::invalid_argument,
                "the last message is empty or the chat template changes it, so it cannot be gone "
                "on with",
                "leave continue_final_message out");
  const auto begin = std::size_t(core.data() - last.data());
  const bool blanks_kept = text.compare(at, last.size() - begin, last, begin) == 0;
  text.resize(at + (blanks_kept ? last.size() - begin : core.size()));
  return text;
}

} // namespace

Result<std::string> chat_text(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                              const std::tm& now, const ChatOptions& how) {
  const bool opens = how.add_generation_prompt && !how.continue_final_message;
  auto text = chat.render(messages, opens, now, how.variables);
  if (!text || !how.continue_final_message)
    return text;
  return cut_behind_last(*std::move(text), messages.empty() ? "" : messages.back().content);
}

Result<std::vector<TokenId>> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages, const std::tm& now,
                                         const ChatOptions& how) {
  const std::string_view mark = free_mark(messages, how.variables);
  if (mark.empty())
    return fail(ErrorCode::invalid_argument,
                "the conversation has all of the characters U+FDD0 to U+FDD7",
                "leave one of them out: they mark what is a user's");
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  const JsonMarker marker(tokenizer, mark);
  for (ChatMessage& message : marked) {
    message.content = tokenizer.mark_special(message.content, mark);
    for (auto& [name, value] : message.fields)
      marker.mark(value);
  }
  ChatOptions given = how;
  for (auto& [name, value] : given.variables)
    marker.mark(value);
  return chat_text(chat, marked, now, given).map([&](const std::string& text) {
    return tokenizer.encode_as({how.add_special_tokens, true, mark}, text);
  });
}

} // namespace paceline::text
