#include "apps/server/prompts.hpp"

#include "apps/console/chat/answer_plan.hpp"
#include "apps/server/tool_refusals.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <limits>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

/// Keeps only the last `most` tokens.
void keep_last(std::vector<TokenId>& tokens, std::size_t most) {
  if (tokens.size() > most)
    tokens.erase(tokens.begin(), tokens.end() - std::ptrdiff_t(most));
}

const char* field_of(const Asked& asked) {
  switch (asked.api) {
  case Api::completions: return "prompt";
  case Api::chat: return "messages";
  case Api::responses: return "input";
  }
  return "";
}

std::size_t most_of(Service& service, const Replica& replica, const Asked& asked) {
  return prompt_tokens_max(service.settings(), replica, asked.request.max_tokens);
}

/// Returns how many tokens of a text are enough to know that it is too long. A prompt that will be
/// cut may have any number.
std::size_t enough_of(Service& service, const Replica& replica, const Asked& asked) {
  return asked.truncate_prompt ? SIZE_MAX / 4 : most_of(service, replica, asked);
}

/// Whether the text has more than `most` tokens. It tries longer and longer pieces. If a piece is
/// cut off, its ids differ from those of the whole, but hardly in number: twice as many are enough
/// to be certain.
asio::awaitable<bool> is_longer(Service& service, const Engine& engine, const std::string& text,
                                SpecialTokens special, std::size_t most) {
  for (std::size_t bytes = limits::encode_piece_bytes; bytes < text.size(); bytes *= 4) {
    std::size_t count = 0;
    co_await service.aside(bytes, [&] {
      count = engine.tokenize(text.substr(0, bytes), special.add, special.parse).size();
    });
    if (count / 2 > most)
      co_return true;
  }
  co_return false;
}

/// Checks and cuts a prompt whose ids are known. text: what they were made of; none: it was given
/// as ids.
asio::awaitable<ApiResult<EncodedPrompt>> finish(Service& service, const Replica& replica,
                                                 const Asked& asked, std::vector<TokenId> tokens,
                                                 const std::string* text) {
  const std::size_t most = most_of(service, replica, asked);
  EncodedPrompt encoded;
  encoded.tokens = std::move(tokens);
  if (asked.truncate_prompt)
    keep_last(encoded.tokens,
              *asked.truncate_prompt < 0 ? most : std::size_t(*asked.truncate_prompt));
  if (encoded.tokens.size() > most)
    co_return refuse(prompt_too_long(replica, encoded.tokens.size(), most, field_of(asked)));
  if (!asked.echo)
    co_return encoded;
  if (text && !asked.truncate_prompt)
    encoded.text = *text;
  else
    co_await service.aside(encoded.tokens.size(),
                           [&] { encoded.text = replica.engine().detokenize(encoded.tokens); });
  co_return encoded;
}

/// Encodes one prompt: a text is tokenized, ids are taken as they are.
asio::awaitable<ApiResult<EncodedPrompt>> encode_one(Service& service, const Replica& replica,
                                                     const Asked& asked, const Prompt& prompt) {
  const auto* text = std::get_if<std::string>(&prompt);
  if (!text)
    co_return co_await finish(service, replica, asked, std::get<std::vector<TokenId>>(prompt),
                              nullptr);
  auto tokens = co_await encode_text(service, replica, *text, {asked.add_special, true},
                                     enough_of(service, replica, asked));
  if (!tokens)
    co_return refuse(
        prompt_too_long(replica, 0, most_of(service, replica, asked), field_of(asked)));
  co_return co_await finish(service, replica, asked, std::move(*tokens), text);
}

/// Gives a word no probability.
std::optional<ApiError> keep_out(const Engine& engine, const std::string& word,
                                 Sampling& sampling) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  const auto alone = engine.tokenize(word, false, true);
  const auto inside = engine.tokenize(" " + word, false, true);
  if (alone.size() != 1)
    return ApiError{.status = 400,
                    .message = fmt::format("bad_words: '{}' is {} tokens, and only single ones can "
                                           "be kept out: leave it out",
                                           text::shown(word), alone.size()),
                    .param = "bad_words",
                    .code = "unsupported_parameter"};
  for (const auto* tokens : {&alone, &inside})
    if (tokens->size() == 1)
      sampling.logit_bias.emplace_back(tokens->front(), never);
  return std::nullopt;
}

} // namespace

asio::awaitable<std::optional<ApiError>> keep_out_bad_words(Service& service,
                                                            const Replica& replica, Asked& asked) {
  std::size_t bytes = 0;
  for (const std::string& word : asked.bad_words)
    bytes += word.size();
  std::optional<ApiError> wrong;
  co_await service.aside(bytes, [&] {
    for (std::size_t i = 0; i < asked.bad_words.size() && !wrong; ++i)
      wrong = keep_out(replica.engine(), asked.bad_words[i], asked.request.sampling);
  });
  co_return wrong;
}

std::size_t prompt_tokens_max(const Settings& settings, const Replica& replica,
                              std::optional<int> max_tokens) {
  const int context = replica.max_model_len() - (max_tokens == 0 ? 0 : 1);
  const int allowed = settings.max_prompt_tokens;
  return std::size_t(allowed > 0 ? std::min(allowed, context) : context);
}

ApiError prompt_too_long(const Replica& replica, std::size_t count, std::size_t most,
                         std::string param) {
  const int context = replica.max_model_len();
  const std::string tokens =
      count > 0 ? fmt::format("{} tokens", count) : fmt::format("more than {} tokens", most);
  const std::string limit = most + 1 >= std::size_t(context)
                                ? fmt::format("this model's maximum context length is {}", context)
                                : fmt::format("{} is the most here", most);
  return {.status = 400,
          .message = fmt::format("the prompt has {}, and {}: shorten it", tokens, limit),
          .param = std::move(param),
          .code = "context_length_exceeded"};
}

asio::awaitable<std::optional<std::vector<TokenId>>>
encode_text(Service& service, const Replica& replica, const std::string& text,
            SpecialTokens special, std::size_t most) {
  const Engine& engine = replica.engine();
  if (co_await is_longer(service, engine, text, special, most))
    co_return std::nullopt;
  std::vector<TokenId> tokens;
  co_await service.aside(text.size(),
                         [&] { tokens = engine.tokenize(text, special.add, special.parse); });
  co_return tokens;
}

asio::awaitable<ApiResult<EncodedPrompt>> encode_chat(Service& service, const Replica& replica,
                                                      const Asked& asked, std::size_t most) {
  const ChatStyle& style = replica.chat_style();
  if (auto wrong = check_tools(style, asked))
    co_return refuse(std::move(*wrong));
  const Engine& engine = replica.engine();
  ChatOptions how = asked.chat;
  how.add_special_tokens = asked.add_special;
  std::vector<ChatMessage> messages;
  Result<std::string> text;
  co_await service.aside(asked.bytes(), [&] {
    messages = as_template_wants(style, asked.messages);
    text = engine.render_chat(messages, how);
  });
  if (!text)
    co_return refuse(api_error(text.error()));
  const bool longer = co_await is_longer(service, engine, *text, {asked.add_special, true}, most);
  if (longer)
    co_return refuse(prompt_too_long(replica, 0, most, field_of(asked)));
  Result<std::vector<TokenId>> tokens; // A short text may be of much that the template reads again.
  co_await service.aside(std::max(text->size(), asked.bytes()),
                         [&] { tokens = engine.chat_tokens(messages, how); });
  if (!tokens)
    co_return refuse(api_error(tokens.error()));
  co_return EncodedPrompt{
      .tokens = *std::move(tokens), .text = {}, .opens_reasoning = opens_reasoning(style, *text)};
}

asio::awaitable<ApiResult<std::vector<EncodedPrompt>>>
encode(Service& service, const Replica& replica, const Asked& asked) {
  std::vector<EncodedPrompt> encoded;
  if (has_conversation(asked.api)) {
    auto chat = co_await encode_chat(service, replica, asked, enough_of(service, replica, asked));
    if (!chat)
      co_return refuse(std::move(chat.error()));
    auto one = co_await finish(service, replica, asked, std::move(chat->tokens), nullptr);
    if (!one)
      co_return refuse(std::move(one.error()));
    one->opens_reasoning = chat->opens_reasoning;
    encoded.push_back(std::move(*one));
    co_return encoded;
  }
  for (const Prompt& prompt : asked.prompts) {
    auto one = co_await encode_one(service, replica, asked, prompt);
    if (!one)
      co_return refuse(std::move(one.error()));
    encoded.push_back(std::move(*one));
  }
  co_return encoded;
}

} // namespace paceline::apps::serve
