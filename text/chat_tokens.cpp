#include "text/chat_tokens.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace paceline::text {
namespace {

/// A character that stands nowhere in the conversation. These are none of any language's: Unicode
/// keeps them for a program's own use.
std::string_view free_mark(std::span<const ChatMessage> messages,
                           const TemplateVariables& variables) {
  constexpr std::string_view marks[] = {"\uFDD0", "\uFDD1", "\uFDD2", "\uFDD3",
                                        "\uFDD4", "\uFDD5", "\uFDD6", "\uFDD7"};
  const auto is_free = [&](std::string_view mark) {
    const auto has = [mark](const std::string& text) { return text.find(mark) != text.npos; };
    return std::ranges::none_of(messages, [&](const auto& m) { return has(m.content); }) &&
           std::ranges::none_of(variables, [&](const auto& v) { return has(v.second); });
  };
  const auto* found = std::ranges::find_if(marks, is_free);
  return found != std::end(marks) ? *found : std::string_view();
}

} // namespace

Result<std::vector<TokenId>> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt, const std::tm& now,
                                         const TemplateVariables& variables) {
  const std::string_view mark = free_mark(messages, variables);
  if (mark.empty())
    return fail(ErrorCode::invalid_argument,
                "the conversation has all of the characters U+FDD0 to U+FDD7",
                "leave one of them out: they mark what is a user's");
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  for (ChatMessage& message : marked)
    message.content = tokenizer.mark_special(message.content, mark);
  TemplateVariables given = variables;
  for (auto& [name, value] : given)
    value = tokenizer.mark_special(value, mark);
  return chat.render(marked, add_generation_prompt, now, given).map([&](const std::string& text) {
    return tokenizer.encode_as({.add_special = false, .parse_special = true, .mark = mark}, text);
  });
}

} // namespace paceline::text
