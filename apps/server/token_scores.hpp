// Log-probabilities of single tokens, as OpenAI's API has them.
#pragma once

#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <span>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

/// Returns the first ones of the likeliest, at most so many.
std::span<const std::pair<TokenId, float>>
likeliest(const std::vector<std::pair<TokenId, float>>& top, int most);

/// Returns {"token", "logprob", "bytes", "top_logprobs"} of a token, with at most so many others.
boost::json::object token_score(const Engine& engine, const TokenLogprob& token, int top);

} // namespace paceline::apps::serve
