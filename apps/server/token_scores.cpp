#include "apps/server/token_scores.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

json::object one_score(const Engine& engine, TokenId id, float logprob) {
  json::value bytes; // Null if the token has no bytes.
  for (const char c : engine.token_bytes(id, false))
    (bytes.is_null() ? bytes.emplace_array() : bytes.get_array())
        .emplace_back(int(static_cast<unsigned char>(c)));
  return {
      {"token", engine.token_name(id)}, {"logprob", double(logprob)}, {"bytes", std::move(bytes)}};
}

} // namespace

std::span<const std::pair<TokenId, float>>
likeliest(const std::vector<std::pair<TokenId, float>>& top, int most) {
  return std::span(top).first(std::min(top.size(), std::size_t(most)));
}

json::object token_score(const Engine& engine, const TokenLogprob& token, int top) {
  json::object score = one_score(engine, token.token, token.logprob);
  auto& others = score["top_logprobs"].emplace_array();
  for (const auto& [id, logprob] : likeliest(token.top, top))
    others.push_back(one_score(engine, id, logprob));
  return score;
}

} // namespace paceline::apps::serve
