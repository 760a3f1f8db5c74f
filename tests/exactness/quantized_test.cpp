// Promise 1 through all actors with weights in the microscaling formats, and with drafts out of the
// target: the demo models, a recurrent target with a block of its own, tiny Gemmas with their
// assistants, and a target with a drafter of blocks, computed by the CPU's kernels, on simulated
// devices. Each position draws among the target's three likeliest tokens, so that all outputs can
// be enumerated. False alarm: statistics.hpp; the 14 checks for a fit below alarm for about one
// choice of seeds in seven million (1.4e-7).
#include "tests/engine/gemma_with_assistant.hpp"
#include "tests/engine/model_with_block.hpp"
#include "tests/engine/target_with_drafter.hpp"
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

constexpr int drawn_among = 3;
using Output = std::vector<TokenId>;

/// What is drawn of each case.
struct Outputs {
  int length = 3;
  int drawn = effort(1000);
};

EngineOptions pair_of(std::optional<WeightFormat> target, std::optional<WeightFormat> draft,
                      std::string drafting = "demo") {
  EngineOptions options;
  options.weights = target;
  options.draft_weights = draft;
  options.drafters = {std::move(drafting)};
  options.devices = {"sim:10ms+1ms/row"};
  options.draft_devices = {"sim:2ms+0.2ms/row"};
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(64) << 20;
  return options;
}

Request request_after(Output tokens) {
  Request request;
  request.prompt_tokens = std::move(tokens);
  request.ignore_eos = true;
  request.sampling.temperature = 1.0f;
  request.sampling.top_k = drawn_among;
  request.sampling.top_p = 1.0f;
  return request;
}

Output stack_prompt(Engine& engine) {
  return engine.tokenize("class Stack:\n    def ");
}

/// The joint distribution of a request's tokens, from the target's rows in plain decoding.
std::map<Output, double> enumerate_outputs(EngineOptions options, Outputs of = {}) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::map<Output, double> outputs{{{}, 1.0}};
  for (int i = 0; i < of.length; ++i) {
    std::map<Output, double> longer;
    for (const auto& [tokens, probability] : outputs) {
      Output all = stack_prompt(engine);
      all.insert(all.end(), tokens.begin(), tokens.end());
      Request request = request_after(std::move(all));
      request.max_tokens = 1;
      request.logprobs = true;
      request.top_logprobs = drawn_among;
      request.logprobs_mode = LogprobsMode::processed;
      const Answer answer = ask(engine, request);
      for (const auto& [token, logprob] : answer.logprobs.at(0).top) {
        Output next = tokens;
        next.push_back(token);
        longer[next] = probability * std::exp(double(logprob));
      }
    }
    outputs = std::move(longer);
  }
  return outputs;
}

struct Drawn {
  std::map<Output, std::uint64_t> counts;
  SpeculationStats stats;
};

Drawn draw_outputs(EngineOptions options, VerifyRule rule, Outputs of) {
  options.schedule_seed = 3;
  Engine engine = open_engine(options);
  Drawn drawn;
  for (int done = 0; done < of.drawn;) {
    std::vector<Request> batch;
    for (; batch.size() < 64 && done < of.drawn; ++done) {
      Request request = request_after(stack_prompt(engine));
      request.max_tokens = of.length;
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
  CHECK_FALSE(engine.metrics().draft_disabled); // Its draws are of the rows that it shows.
  return drawn;
}

/// An output that the enumeration does not have fits nothing.
double p_value_of(const std::map<Output, double>& expected, const Drawn& drawn) {
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
  CHECK(fit.cells > (sanitized ? 3 : 10));
  return fit.p_value;
}

Drawn check_fit(const EngineOptions& options, VerifyRule rule, Outputs of = {}) {
  Drawn drawn = draw_outputs(options, rule, of);
  CHECK(p_value_of(enumerate_outputs(options, of), drawn) > false_alarm);
  CHECK(drawn.stats.accepted > drawn.stats.judged / 8); // Drafts are at work,
  CHECK(drawn.stats.accepted < drawn.stats.judged);     // and are rejected, too.
  return drawn;
}

} // namespace

TEST_CASE("a pair in microscaling formats gives its own target's distribution, not another's") {
  EngineOptions options = pair_of(WeightFormat::mxfp4, WeightFormat::mxfp4);
  options.speculation = SpeculationMode::overlap;
  options.window = 2;
  const Drawn drawn = check_fit(options, VerifyRule::rejection);
  if (!sanitized) // With so many requests the target of 16 bits is told from it.
    CHECK(p_value_of(enumerate_outputs(pair_of({}, {})), drawn) < false_alarm);
}

TEST_CASE("every rule and mode gives the distribution of a target in a microscaling format") {
  EngineOptions options = pair_of(WeightFormat::mxfp6, WeightFormat::mxfp8_e5m2);
  options.window = 2;
  options.speculation = SpeculationMode::sync;
  check_fit(options, VerifyRule::rejection);
  options.speculation = SpeculationMode::automatic;
  check_fit(options, VerifyRule::match);
  options.speculation = SpeculationMode::overlap;
  check_fit(options, VerifyRule::coupled);
}

TEST_CASE("a draft out of the target itself leaves the target's distribution as it is") {
  EngineOptions options = pair_of({}, {}, "self:mxfp4");
  options.speculation = SpeculationMode::overlap;
  options.window = 2;
  check_fit(options, VerifyRule::rejection);
}

TEST_CASE("a head on the target leaves the target's distribution as it is") {
  EngineOptions options = pair_of({}, {}, "eagle3:demo");
  options.window = 2;
  options.speculation = SpeculationMode::overlap;
  check_fit(options, VerifyRule::rejection);
  options.speculation = SpeculationMode::sync;
  check_fit(options, VerifyRule::match);
}

TEST_CASE("a block that the checkpoint brings leaves a recurrent target's distribution as it is") {
  const ModelWithBlock model;
  EngineOptions options = pair_of({}, {}, "mtp");
  options.target = model.path();
  options.window = 2;
  options.speculation = SpeculationMode::overlap;
  check_fit(options, VerifyRule::rejection);
  options.speculation = SpeculationMode::sync;
  check_fit(options, VerifyRule::match);
}

TEST_CASE("an assistant leaves a Gemma's distribution as it is, whether it says all ids or few") {
  for (const std::size_t number : {0, 1}) {
    const GemmaWithAssistant model(number);
    EngineOptions options = pair_of({}, {}, model.draft());
    options.target = model.target();
    options.window = 2;
    options.speculation = SpeculationMode::overlap;
    check_fit(options, VerifyRule::rejection);
  }
}

TEST_CASE("a drafter of blocks leaves the target's distribution as it is") {
  const TargetWithDrafter target;
  const Outputs longer{5, effort(4000)}; // Windows of both their tokens fit in.
  EngineOptions options = pair_of({}, {}, target.drafter());
  options.target = target.path();
  options.window = 2;
  options.speculation = SpeculationMode::sync;
  check_fit(options, VerifyRule::rejection, longer);
  options.speculation = SpeculationMode::overlap; // the block's last tokens are the lookahead
  check_fit(options, VerifyRule::rejection, longer);
  options.speculation = SpeculationMode::automatic;
  check_fit(options, VerifyRule::coupled, longer);
}
