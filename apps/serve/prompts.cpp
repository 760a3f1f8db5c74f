#include "apps/serve/prompts.hpp"

#include <fmt/format.h>
#include <numeric>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

std::size_t size_of(const Asked& asked) {
  std::size_t bytes = 0;
  for (const Prompt& prompt : asked.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      bytes += text->size();
    else if (asked.echo)
      bytes += std::get<std::vector<TokenId>>(prompt).size();
  return bytes;
}

EncodedPrompt encode_one(const Engine& engine, const Prompt& prompt, bool echo) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return {engine.tokenize(*text), echo ? *text : std::string()};
  const auto& tokens = std::get<std::vector<TokenId>>(prompt);
  return {tokens, echo ? engine.detokenize(tokens) : std::string()};
}

std::optional<ApiError> check_length(const Service& service, const EncodedPrompt& prompt) {
  const int most = service.settings().max_prompt_tokens;
  if (most == 0 || prompt.tokens.size() <= std::size_t(most))
    return std::nullopt;
  return ApiError{.status = 400,
                  .message = fmt::format("the prompt has {} tokens: {} is the most here",
                                         prompt.tokens.size(), most),
                  .param = "prompt",
                  .code = "context_length_exceeded"};
}

} // namespace

asio::awaitable<ApiResult<EncodedPrompt>> encode_chat(Service& service,
                                                      const std::vector<ChatMessage>& messages,
                                                      bool add_generation_prompt) {
  const std::size_t bytes =
      std::accumulate(messages.begin(), messages.end(), std::size_t(0),
                      [](std::size_t sum, const ChatMessage& m) { return sum + m.content.size(); });
  ApiResult<EncodedPrompt> encoded;
  co_await service.aside(bytes, [&] {
    const Engine& engine = service.engine();
    const auto text = engine.render_chat(messages, add_generation_prompt);
    if (text)
      encoded->tokens = engine.tokenize(*text, false); // a template writes what stands before
    else
      encoded = refuse(api_error(text.error()));
  });
  co_return encoded;
}

asio::awaitable<ApiResult<std::vector<EncodedPrompt>>> encode(Service& service,
                                                              const Asked& asked) {
  std::vector<EncodedPrompt> prompts;
  if (asked.api == Api::chat) {
    auto prompt = co_await encode_chat(service, asked.messages, true);
    if (!prompt)
      co_return refuse(std::move(prompt.error()));
    prompts.push_back(std::move(*prompt));
  } else {
    co_await service.aside(size_of(asked), [&] {
      for (const Prompt& prompt : asked.prompts)
        prompts.push_back(encode_one(service.engine(), prompt, asked.echo));
    });
  }
  for (const EncodedPrompt& prompt : prompts)
    if (auto wrong = check_length(service, prompt))
      co_return refuse(std::move(*wrong));
  co_return prompts;
}

} // namespace paceline::apps::serve
