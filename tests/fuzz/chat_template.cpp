// Any template is read or refused; what was read renders any conversation or says in a line why
// not, within its bounds. Behind a NUL the conversation follows: role, text, role ... with NULs
// between.
#include "models/chat_template.hpp"
#include "models/tokenizer.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace paceline;

void paceline::testing::fuzz(std::string_view input) {
  const auto next = [&] {
    const std::size_t end = std::min(input.find('\0'), input.size());
    const std::string part(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
    return part;
  };
  const auto chat = models::ChatTemplate::parse("fuzzed", next(), {{"bos_token", "<s>"}});
  if (!chat)
    return require(chat.error().text().find('\n') == std::string::npos, "an error is one line");
  std::vector<ChatMessage> messages;
  while (!input.empty()) {
    std::string role = next();
    messages.push_back({std::move(role), next()});
  }
  if (messages.empty())
    messages = {{"system", "s"}, {"user", " u\n"}, {"assistant", "a"}, {"user", "\u00e9"}};
  const auto text = chat->render(messages, true, {});
  if (!text)
    return require(text.error().text().find('\n') == std::string::npos, "an error is one line");
  require(*text == models::sanitize_utf8(*text), "what is rendered is UTF-8");
}
