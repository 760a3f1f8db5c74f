// Any template is read or refused; what was read renders any conversation or says in a line why
// not, within its bounds. Behind a NUL the conversation follows: role, text, role ... with NULs
// between.
#include "text/chat_template.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "text/utf8.hpp"

#include <algorithm>

using namespace paceline;

void paceline::testing::fuzz(std::string_view input) {
  const auto next = [&] {
    const std::size_t end = std::min(input.find('\0'), input.size());
    const std::string part(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
    return part;
  };
  const auto chat = text::ChatTemplate::parse("fuzzed", next(), {{"bos_token", "<s>"}});
  if (!chat)
    return require(chat.error().text().find('\n') == std::string::npos, "an error is one line");
  std::vector<ChatMessage> messages;
  while (!input.empty()) {
    std::string role = next();
    messages.push_back({std::move(role), next()});
  }
  if (messages.empty())
    messages = {{"system", "s"}, {"user", " u\n"}, {"assistant", "a"}, {"user", "\u00e9"}};
  const auto rendered = chat->render(messages, true, {});
  if (!rendered)
    return require(rendered.error().text().find('\n') == std::string::npos, "an error is one line");
  require(*rendered == text::sanitize_utf8(*rendered), "what is rendered is UTF-8");
}
