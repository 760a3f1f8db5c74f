// From what a client wrote to the ids that the model reads.
#pragma once

#include "apps/server/openai_request.hpp"
#include "apps/server/service.hpp"

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

namespace paceline::apps::serve {

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::string text; ///< Of completions: what `echo` shows.
};

/// replica: who answers.

/// The prompts of a request, or its conversation as the model's template has it. Long ones do not
/// hold up other requests, and what certainly does not fit is not encoded to its end.
boost::asio::awaitable<ApiResult<std::vector<EncodedPrompt>>>
encode(Service& service, const Replica& replica, const Asked& asked);

/// A conversation's ids, by the model's chat template: special tokens are the template's alone. An
/// error where there are certainly more than `most`.
boost::asio::awaitable<ApiResult<std::vector<TokenId>>>
encode_chat(Service& service, const Replica& replica, const Asked& asked, std::size_t most);

/// Most tokens of a prompt: what the context leaves, or what the operator allows.
std::size_t prompt_tokens_max(const Settings& settings, const Replica& replica,
                              std::optional<int> max_tokens);
/// What a longer one is told. count: its tokens; 0: it was not read to its end.
ApiError prompt_too_long(const Replica& replica, std::size_t count, std::size_t most,
                         std::string param);

/// As Request::add_special_tokens and parse_special_tokens.
struct SpecialTokens {
  bool add;
  bool parse;
};

/// Ids of a text; none: there are certainly more than `most`.
boost::asio::awaitable<std::optional<std::vector<TokenId>>>
encode_text(Service& service, const Replica& replica, const std::string& text,
            SpecialTokens special, std::size_t most);

} // namespace paceline::apps::serve
