// Any body of an HTTP request for an answer is understood, with values that the engine takes, or
// refused in OpenAI's shape.
#include "apps/server/fields.hpp"
#include "apps/server/openai_request.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <boost/json/parse.hpp>
#include <cmath>

namespace {

using namespace paceline;
using namespace paceline::apps::serve;
using paceline::testing::require;

constexpr int vocabulary = 1000;

void check(const ApiError& error) {
  require(error.status >= 400 && error.status < 500, "a body is wrong by its client's fault");
  require(!error.message.empty(), "an error says what is wrong");
  const auto told = boost::json::parse(error_json(error));
  require(told.at("error").at("message").is_string(), "an error has OpenAI's shape");
}

void check_ids(const std::vector<TokenId>& ids) {
  for (const TokenId id : ids)
    require(id >= 0 && id < vocabulary, "ids are of the vocabulary");
}

void check(const Asked& asked) {
  require(asked.n >= 1 && asked.choices() >= 1, "there is something to answer");
  for (const Prompt& prompt : asked.prompts)
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt))
      check_ids(*ids);
  const Sampling& sampling = asked.request.sampling;
  for (const auto& number : {sampling.temperature, sampling.top_p, sampling.min_p})
    require(!number || (std::isfinite(*number) && *number >= 0), "numbers are in range");
  for (const auto& [id, bias] : sampling.logit_bias) {
    check_ids({id});
    require(std::isfinite(bias), "a bias is a number");
  }
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  const auto body = parse_object(std::string(input));
  if (!body)
    return check(body.error());
  for (const Api api : {Api::completions, Api::chat, Api::responses}) {
    const auto asked = read_request(api, *body, {}, vocabulary);
    if (asked)
      check(*asked);
    else
      check(asked.error());
  }
}
