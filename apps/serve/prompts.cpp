#include "apps/serve/prompts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

/// The conversation up to the end of its last message, without what the template writes behind it.
ApiResult<std::string> cut_behind_last(std::string text, const std::string& last) {
  constexpr const char* blanks = " \t\r\n";
  const auto begin = last.find_first_not_of(blanks);
  const auto end = last.find_last_not_of(blanks);
  const std::string core =
      begin == std::string::npos ? std::string() : last.substr(begin, end - begin + 1);
  const auto at = text.rfind(core);
  if (core.empty() || at == std::string::npos)
    return refuse(invalid_value("continue_final_message",
                                "the last message is empty or the chat template changes it, so it "
                                "cannot be gone on with: leave continue_final_message out"));
  const bool blanks_kept = text.compare(at, last.size() - begin, last, begin) == 0;
  text.resize(at + (blanks_kept ? last.size() - begin : core.size()));
  return text;
}

/// The last `most` tokens.
void keep_last(std::vector<TokenId>& tokens, std::size_t most) {
  if (tokens.size() > most)
    tokens.erase(tokens.begin(), tokens.end() - std::ptrdiff_t(most));
}

/// One prompt's encoding: the text, or ids as they are.
asio::awaitable<ApiResult<EncodedPrompt>> encode_one(Service& service, const Replica& replica,
                                                     const Asked& asked, const Prompt& prompt) {
  const std::size_t most = prompt_tokens_max(service.settings(), replica, asked.request.max_tokens);
  const std::size_t enough = asked.truncate_prompt ? SIZE_MAX / 4 : most;
  const char* param = asked.api == Api::chat ? "messages" : "prompt";
  EncodedPrompt encoded;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    auto tokens = co_await encode_text(service, replica, *text, {asked.add_special, true}, enough);
    if (!tokens)
      co_return refuse(prompt_too_long(replica, 0, most, param));
    encoded.tokens = std::move(*tokens);
  } else {
    encoded.tokens = std::get<std::vector<TokenId>>(prompt);
  }
  if (asked.truncate_prompt)
    keep_last(encoded.tokens,
              *asked.truncate_prompt < 0 ? most : std::size_t(*asked.truncate_prompt));
  if (encoded.tokens.size() > most)
    co_return refuse(prompt_too_long(replica, encoded.tokens.size(), most, param));
  if (!asked.echo)
    co_return encoded;
  const auto* text = std::get_if<std::string>(&prompt);
  if (text && !asked.truncate_prompt)
    encoded.text = *text;
  else
    co_await service.aside(encoded.tokens.size(),
                           [&] { encoded.text = replica.engine().detokenize(encoded.tokens); });
  co_return encoded;
}

} // namespace

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

/// Longer and longer pieces first. Where a piece is cut off, ids differ from those of the whole,
/// but hardly in number: twice as many are enough to be certain.
asio::awaitable<std::optional<std::vector<TokenId>>>
encode_text(Service& service, const Replica& replica, const std::string& text,
            SpecialTokens special, std::size_t most) {
  const Engine& engine = replica.engine();
  for (std::size_t bytes = limits::encode_piece_bytes; bytes < text.size(); bytes *= 4) {
    std::size_t count = 0;
    co_await service.aside(bytes, [&] {
      count = engine.tokenize(text.substr(0, bytes), special.add, special.parse).size();
    });
    if (count / 2 > most)
      co_return std::nullopt;
  }
  std::vector<TokenId> tokens;
  co_await service.aside(text.size(),
                         [&] { tokens = engine.tokenize(text, special.add, special.parse); });
  co_return tokens;
}

asio::awaitable<ApiResult<std::string>> render_chat(Service& service, const Replica& replica,
                                                    const Asked& asked) {
  ApiResult<std::string> rendered;
  co_await service.aside(asked.bytes(), [&] {
    auto text =
        replica.engine().render_chat(asked.messages, asked.add_generation_prompt, asked.variables);
    if (!text)
      rendered = refuse(api_error(text.error()));
    else if (asked.continue_final)
      rendered = cut_behind_last(std::move(*text), asked.messages.back().content);
    else
      rendered = std::move(*text);
  });
  co_return rendered;
}

asio::awaitable<ApiResult<std::vector<EncodedPrompt>>>
encode(Service& service, const Replica& replica, const Asked& asked) {
  std::vector<Prompt> rendered;
  if (asked.api == Api::chat) {
    auto text = co_await render_chat(service, replica, asked);
    if (!text)
      co_return refuse(std::move(text.error()));
    rendered.emplace_back(std::move(*text));
  }
  std::vector<EncodedPrompt> encoded;
  for (const Prompt& prompt : asked.api == Api::chat ? rendered : asked.prompts) {
    auto one = co_await encode_one(service, replica, asked, prompt);
    if (!one)
      co_return refuse(std::move(one.error()));
    encoded.push_back(std::move(*one));
  }
  co_return encoded;
}

} // namespace paceline::apps::serve
