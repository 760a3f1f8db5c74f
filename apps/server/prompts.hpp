// Turning what a client wrote into the ids that the model reads.
#pragma once

#include "apps/server/openai_request.hpp"
#include "apps/server/service.hpp"

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::serve {

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::string text;             ///< Text that `echo` shows; completions only.
  bool opens_reasoning = false; ///< It ends with what opens the model's reasoning.
};

/// replica: the engine that answers.

/// Gives bad words no probability, both with a blank before them and without. Each must be one
/// token.
boost::asio::awaitable<std::optional<ApiError>>
keep_out_bad_words(Service& service, const Replica& replica, Asked& asked);

/// Encodes the prompts of a request, or its conversation by the model's template. Long ones do not
/// hold up other requests, and a text that certainly does not fit is not encoded to its end.
boost::asio::awaitable<ApiResult<std::vector<EncodedPrompt>>>
encode(Service& service, const Replica& replica, const Asked& asked);

/// Returns a conversation's ids, by the model's chat template; only the template may write special
/// tokens. Fails if there are certainly more than `most` ids, or if the model cannot be shown the
/// functions that it may call.
boost::asio::awaitable<ApiResult<EncodedPrompt>>
encode_chat(Service& service, const Replica& replica, const Asked& asked, std::size_t most);

/// Returns the most tokens that a prompt may have: what the context leaves, or what the operator
/// allows.
std::size_t prompt_tokens_max(const Settings& settings, const Replica& replica,
                              std::optional<int> max_tokens);
/// Returns the error for a longer prompt. count: its tokens; 0: it was not read to its end.
ApiError prompt_too_long(const Replica& replica, std::size_t count, std::size_t most,
                         std::string param);

/// The same as Request::add_special_tokens and parse_special_tokens.
struct SpecialTokens {
  bool add;
  bool parse;
};

/// Returns the ids of a text. None: there are certainly more than `most`.
boost::asio::awaitable<std::optional<std::vector<TokenId>>>
encode_text(Service& service, const Replica& replica, const std::string& text,
            SpecialTokens special, std::size_t most);

} // namespace paceline::apps::serve
