#include "tests/conformance/faults.hpp"

#include <boost/json/array.hpp>

namespace paceline::testing {
namespace json = boost::json;
namespace {

/// Gives a field another value, in every `nth` request that has it.
auto set(const char* name, json::value value, int nth = 1) {
  return [name, value, nth](Exchange& exchange) {
    if (exchange.has(name) && exchange.number % nth == 0)
      exchange.request[name] = value;
  };
}

/// Leaves a field out of the requests that have another one, too.
auto drop(const char* name, const char* beside) {
  return [name, beside](Exchange& exchange) {
    if (exchange.has(beside))
      exchange.request.erase(name);
  };
}

/// Whether a field has this value, as a number.
bool is(const Exchange& exchange, const char* name, double number) {
  const auto* value = exchange.request.if_contains(name);
  return value && value->is_number() && value->to_number<double>() == number;
}

/// Every `nth` request of one temperature gets another.
auto another_temperature(double from, double to, int nth = 1) {
  return [from, to, nth](Exchange& exchange) {
    if (is(exchange, "temperature", from) && exchange.number % nth == 0)
      exchange.request["temperature"] = to;
  };
}

/// After so many requests of a kind the server has no places left.
template <class Kind>
auto leaks(Kind kind, int places) {
  return [kind, places, taken = 0](Exchange& exchange) mutable {
    taken += kind(exchange);
    if (taken >= places)
      exchange.refusal = 503;
  };
}

std::size_t prompt_bytes(const Exchange& exchange) {
  const auto* prompt = exchange.request.if_contains("prompt");
  return prompt && prompt->is_string() ? prompt->as_string().size() : 0;
}

/// Changes the last of the tokens that log-probabilities name.
template <class Kind>
auto last_token(Kind kind, std::function<json::value(const Exchange&)> token) {
  return [kind, token = std::move(token)](Exchange& exchange, json::object& answer) {
    if (!kind(exchange))
      return;
    auto& choice = answer.at("choices").as_array().front().as_object();
    if (auto* scores = choice.if_contains("logprobs"); scores && scores->is_object())
      scores->at("tokens").as_array().back() = token(exchange);
  };
}

std::vector<Fault> draw_faults() {
  return {
      {"one first token of four is the likeliest",
       "distribution/first-token",
       [](Exchange& exchange) {
         if (is(exchange, "max_tokens", 1) && exchange.number % 4 == 0)
           exchange.request["temperature"] = 0;
       },
       {}},
      {"temperature is not obeyed",
       "distribution/temperature-0.7",
       another_temperature(0.7, 1),
       {}},
      {"one answer of six is greedy",
       "distribution/temperature-1",
       another_temperature(1, 0, 6),
       {}},
      {"temperature is capped", "distribution/temperature-1.3", another_temperature(1.3, 1.1), {}},
      {"top_p is not obeyed by every row", "distribution/top-p", set("top_p", 1, 2), {}},
      {"top_k is one too many",
       "distribution/top-k",
       [](Exchange& exchange) {
         if (is(exchange, "top_k", 4))
           exchange.request["top_k"] = 5;
       },
       {}},
      {"min_p is not obeyed by every row", "distribution/min-p", set("min_p", 0, 2), {}},
      {"seeded answers are colder",
       "distribution/seeded",
       [](Exchange& exchange) {
         if (exchange.has("seed"))
           exchange.request["temperature"] = 0.8;
       },
       {}},
  };
}

std::vector<Fault> warping_faults() {
  return {
      {"a ban is forgotten", "warping/logit-bias-ban", drop("logit_bias", "logit_bias"), {}},
      {"a bias does not reach the last token",
       "warping/logit-bias-force",
       {},
       last_token([](auto& exchange) { return exchange.has("logit_bias"); },
                  [](auto&) { return json::value("~"); })},
      {"presence_penalty is a quarter",
       "warping/presence-penalty",
       set("presence_penalty", 0.5),
       {}},
      {"frequency_penalty counts once",
       "warping/frequency-penalty",
       [](Exchange& exchange) {
         if (exchange.request.erase("frequency_penalty") > 0)
           exchange.request["presence_penalty"] = 0.7;
       },
       {}},
      {"repetition_penalty rewards",
       "warping/repetition-penalty",
       [](Exchange& exchange) {
         if (is(exchange, "repetition_penalty", 1.8))
           exchange.request["repetition_penalty"] = 0.6;
       },
       {}},
      {"allowed_token_ids reach greedy rows only",
       "warping/allowed-tokens",
       [](Exchange& exchange) {
         if (is(exchange, "temperature", 1))
           exchange.request.erase("allowed_token_ids");
       },
       {}},
      {"a bad word comes in the end",
       "warping/bad-words",
       {},
       last_token([](auto& exchange) { return exchange.has("bad_words"); },
                  [](auto& exchange) { return exchange.request.at("bad_words").at(0); })},
      {"an answer ends before min_tokens",
       "warping/min-tokens",
       {},
       [](Exchange& exchange, json::object& answer) {
         if (exchange.has("min_tokens"))
           answer["usage"].as_object()["completion_tokens"] = 7;
       }},
      {"penalties are lost in windows",
       "warping/speculation",
       [](Exchange& exchange) {
         if (!exchange.has("speculation"))
           exchange.request.erase("presence_penalty");
       },
       {}},
  };
}

std::vector<Fault> seed_faults() {
  return {
      {"seeds are ignored", "seeds/repeat", drop("seed", "seed"), {}},
      {"neighbours share a stream of noise",
       "seeds/company",
       [](Exchange& exchange) {
         if (!exchange.alone && exchange.has("seed"))
           exchange.request["seed"] = 77 + exchange.number;
       },
       {}},
      {"all seeds are one", "seeds/differ", set("seed", 7), {}},
      {"few seeds have noise of their own",
       "seeds/differ",
       [](Exchange& exchange) {
         if (auto* seed = exchange.request.if_contains("seed"))
           *seed = seed->to_number<std::int64_t>() % 3;
       },
       {}},
      {"without a seed it is 0",
       "seeds/unseeded",
       [](Exchange& exchange) {
         if (!exchange.has("seed"))
           exchange.request["seed"] = 0;
       },
       {}},
      {"n answers are one",
       "seeds/choices",
       {},
       [](Exchange&, json::object& answer) {
         auto& choices = answer.at("choices").as_array();
         for (std::size_t i = 1; i < choices.size(); ++i)
           for (const char* name : {"text", "logprobs"})
             choices[i].as_object()[name] = choices[0].at(name);
       }},
  };
}

std::vector<Fault> manners_faults() {
  return {
      {"what breaks in prefill keeps its place",
       "manners/cancel-prefill",
       leaks([](auto& exchange) { return prompt_bytes(exchange) > 500; }, 3),
       {}},
      {"what breaks in a stream keeps its place",
       "manners/cancel-stream",
       leaks([](auto& exchange) { return exchange.streams(); }, 5),
       {}},
      {"a malformed field is a fault of the server",
       "manners/errors",
       [](Exchange& exchange) {
         const auto* bias = exchange.request.if_contains("logit_bias");
         if (bias && bias->is_string())
           exchange.refusal = 500;
       },
       {}},
      {"a malformed field is passed over",
       "manners/strict",
       [](Exchange& exchange) {
         const auto* seed = exchange.request.if_contains("seed");
         if (seed && seed->is_string())
           exchange.request.erase("seed");
       },
       {}},
      {"a long prompt is cut",
       "manners/too-long",
       [](Exchange& exchange) {
         if (prompt_bytes(exchange) > 2000)
           exchange.request["prompt"] = exchange.request.at("prompt").as_string().subview(0, 1000);
       },
       {}},
      {"a call's arguments are empty",
       "structure/tools",
       {},
       [](Exchange&, json::object& answer) {
         auto& choice = answer.at("choices").as_array().front().as_object();
         auto* message = choice.if_contains("message");
         auto* calls = message ? message->as_object().if_contains("tool_calls") : nullptr;
         if (calls && calls->is_array())
           for (json::value& call : calls->as_array())
             call.as_object().at("function").as_object()["arguments"] = "{}";
       }},
  };
}

} // namespace

std::vector<Fault> request_faults() {
  std::vector<Fault> all = draw_faults();
  for (const auto& more : {warping_faults(), seed_faults(), manners_faults()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace paceline::testing
