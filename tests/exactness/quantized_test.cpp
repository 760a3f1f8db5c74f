// Promise 1 through all actors with weights in the microscaling formats: the demo pair, computed by
// the CPU's kernels, on simulated devices. Each position draws among the target's three likeliest
// tokens, so that all outputs can be enumerated. False alarm: statistics.hpp; the 7 checks for a
// fit below alarm for fewer than one choice of seeds in ten million (7e-8).
#include "tests/support/effort.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr int length = 4;
constexpr int likeliest = 3;
using Tokens = std::vector<TokenId>;

EngineOptions pair_of(std::optional<WeightFormat> target, std::optional<WeightFormat> draft,
                      std::string drafting = "demo") {
  EngineOptions options;
  options.weights = target;
  options.draft_weights = draft;
  options.draft = std::move(drafting);
  options.device = "sim:10ms+1ms/row";
  options.draft_device = "sim:2ms+0.2ms/row";
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(64) << 20;
  return options;
}

Request request_after(Tokens tokens) {
  Request request;
  request.prompt_tokens = std::move(tokens);
  request.ignore_eos = true;
  request.sampling.temperature = 1.0f;
  request.sampling.top_k = likeliest;
  request.sampling.top_p = 1.0f;
  return request;
}

Tokens prompt(Engine& engine) {
  return engine.tokenize("class Stack:\n    def ");
}

/// The joint distribution of `length` tokens, from the target's rows in plain decoding.
std::map<Tokens, double> enumerate_outputs(EngineOptions options) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::map<Tokens, double> outputs{{{}, 1.0}};
  for (int i = 0; i < length; ++i) {
    std::map<Tokens, double> longer;
    for (const auto& [tokens, probability] : outputs) {
      Tokens all = prompt(engine);
      all.insert(all.end(), tokens.begin(), tokens.end());
      Request request = request_after(std::move(all));
      request.max_tokens = 1;
      request.logprobs = true;
      request.top_logprobs = likeliest;
      request.logprobs_mode = LogprobsMode::processed;
      for (const auto& [token, logprob] : ask(engine, request).logprobs.at(0).top) {
        Tokens next = tokens;
        next.push_back(token);
        longer[next] = probability * std::exp(double(logprob));
      }
    }
    outputs = std::move(longer);
  }
  return outputs;
}

struct Drawn {
  std::map<Tokens, std::uint64_t> counts;
  SpeculationStats stats;
};

Drawn draw(EngineOptions options, VerifyRule rule, int requests) {
  options.schedule_seed = 3;
  Engine engine = open_engine(options);
  Drawn drawn;
  for (int done = 0; done < requests;) {
    std::vector<Request> batch;
    for (; batch.size() < 64 && done < requests; ++done) {
      Request request = request_after(prompt(engine));
      request.max_tokens = length;
      request.verify = rule;
      request.sampling.seed = std::uint64_t(done);
      batch.push_back(std::move(request));
    }
    for (const Answer& answer : ask_all(engine, batch)) {
      ++drawn.counts[answer.tokens];
      drawn.stats.judged += answer.end().speculation.judged;
      drawn.stats.accepted += answer.end().speculation.accepted;
    }
  }
  return drawn;
}

/// An output that the enumeration does not have fits nothing.
double p_value(const std::map<Tokens, double>& expected, const Drawn& drawn) {
  std::vector<double> probabilities;
  std::vector<std::uint64_t> counts;
  for (const auto& [tokens, probability] : expected) {
    probabilities.push_back(probability);
    const auto at = drawn.counts.find(tokens);
    counts.push_back(at == drawn.counts.end() ? 0 : at->second);
  }
  for (const auto& [tokens, count] : drawn.counts)
    if (!expected.contains(tokens)) {
      probabilities.push_back(0);
      counts.push_back(count);
    }
  const ChiSquare fit = chi_square(probabilities, counts);
  CHECK(fit.cells > (sanitized ? 5 : 15));
  return fit.p_value;
}

void check_fit(const EngineOptions& options, VerifyRule rule) {
  const Drawn drawn = draw(options, rule, effort(3000));
  CHECK(p_value(enumerate_outputs(options), drawn) > false_alarm);
  CHECK(drawn.stats.accepted > drawn.stats.judged / 4); // Drafts are at work,
  CHECK(drawn.stats.accepted < drawn.stats.judged);     // and are rejected, too.
}

} // namespace

TEST_CASE("a pair in microscaling formats gives its quantized target's distribution") {
  EngineOptions options = pair_of(WeightFormat::mxfp4, WeightFormat::mxfp4);
  for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled, VerifyRule::match}) {
    CAPTURE(std::string(to_string(rule)));
    options.speculation =
        rule == VerifyRule::match ? SpeculationMode::automatic : SpeculationMode::overlap;
    options.window = 2;
    check_fit(options, rule);
  }
  options = pair_of(WeightFormat::mxfp6, WeightFormat::mxfp8_e5m2);
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  check_fit(options, VerifyRule::rejection);
}

TEST_CASE("a draft out of the target itself leaves the target's distribution as it is") {
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    EngineOptions options = pair_of({}, {}, "self:mxfp4");
    options.speculation = mode;
    options.window = 2;
    check_fit(options, VerifyRule::rejection);
  }
}

TEST_CASE("what the quantized target draws is not what the target of 16 bits would") {
  EngineOptions options = pair_of(WeightFormat::mxfp4, WeightFormat::mxfp4);
  options.speculation = SpeculationMode::sync;
  options.window = 2;
  const Drawn drawn = draw(options, VerifyRule::rejection, 3000);
  CHECK(p_value(enumerate_outputs(options), drawn) > false_alarm);
  CHECK(p_value(enumerate_outputs(pair_of({}, {})), drawn) < false_alarm);
}
