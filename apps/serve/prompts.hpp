// From what a client wrote to the ids that the model reads.
#pragma once

#include "apps/serve/openai_request.hpp"
#include "apps/serve/service.hpp"

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

namespace paceline::apps::serve {

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::string text; ///< Of completions: what `echo` shows.
};

/// The prompts of a request, or its conversation as the model's template has it. Long ones do not
/// hold up other requests.
boost::asio::awaitable<ApiResult<std::vector<EncodedPrompt>>> encode(Service& service,
                                                                     const Asked& asked);

/// A conversation as text, by the model's chat template.
boost::asio::awaitable<ApiResult<EncodedPrompt>>
encode_chat(Service& service, const std::vector<ChatMessage>& messages, bool add_generation_prompt);

} // namespace paceline::apps::serve
