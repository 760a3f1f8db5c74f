// What a stream carries besides tokens: sources, log-probabilities, text in whole characters.
#include "models/synthetic/scripted_rows.hpp"
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

using namespace paceline;
using namespace paceline::testing;

namespace {

Request scored(LogprobsMode mode) {
  Request request;
  request.prompt_tokens = {1, 2, 3, 4, 5};
  request.max_tokens = 30;
  request.sampling.temperature = 0.7f;
  request.sampling.top_k = 12;
  request.sampling.frequency_penalty = 0.3f;
  request.sampling.seed = 11;
  request.logprobs = true;
  request.top_logprobs = 3;
  request.logprobs_mode = mode;
  return request;
}

void check_same(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logprob == b[i].logprob); // the same bits: promise 2a
    CHECK(a[i].top == b[i].top);
  }
}

} // namespace

TEST_CASE("log-probabilities are those of plain decoding, raw and processed") {
  for (const LogprobsMode mode : {LogprobsMode::raw, LogprobsMode::processed}) {
    EngineOptions options = simulated();
    Engine engine = open_engine(options);
    Request request = scored(mode);
    request.speculation = SpeculationMode::off;
    const Answer plain = ask(engine, request);
    REQUIRE(plain.logprobs.size() == 30);
    for (std::size_t i = 0; i < plain.logprobs.size(); ++i) {
      CHECK(plain.logprobs[i].token == plain.tokens[i]);
      CHECK(plain.logprobs[i].top.size() == 3);
    }
    for (const SpeculationMode how : {SpeculationMode::sync, SpeculationMode::overlap}) {
      request.speculation = how;
      const Answer answer = ask(engine, request);
      CHECK(answer.tokens == plain.tokens);
      check_same(answer.logprobs, plain.logprobs);
    }
  }
}

TEST_CASE("the processed mode takes the warped distribution, raw the model's") {
  Engine engine = open_engine(simulated());
  Request request = scored(LogprobsMode::processed);
  request.sampling.top_k = 1;
  const Answer processed = ask(engine, request);
  for (const TokenLogprob& token : processed.logprobs)
    CHECK(token.logprob == 0);
  request.logprobs_mode = LogprobsMode::raw;
  const Answer raw = ask(engine, request);
  CHECK(raw.tokens == processed.tokens);
  for (const TokenLogprob& token : raw.logprobs)
    CHECK(token.logprob < 0);
}

TEST_CASE("a prompt is scored once, token by token, whatever the chunks") {
  const auto script = models::parse_scripted(ScriptedPair().target()).value();
  std::optional<PromptLogprobs> expected;
  for (const int chunk : {512, 4, 1}) {
    EngineOptions options = simulated();
    options.prefill_chunk = chunk;
    Engine engine = open_engine(options);
    for (const int max_tokens : {0, 1, 20}) {
      CAPTURE(chunk);
      CAPTURE(max_tokens);
      Request request;
      for (int i = 0; i < 40; ++i)
        request.prompt_tokens.push_back((i * 5) % 32);
      request.max_tokens = max_tokens;
      request.prompt_logprobs = true;
      request.top_logprobs = 2;
      const Answer answer = ask(engine, request);
      CHECK(answer.tokens.size() == std::size_t(max_tokens));
      CHECK(answer.end().reason == FinishReason::length);
      REQUIRE(answer.prompt.size() == 1);
      const PromptLogprobs& scores = answer.prompt.front();
      CHECK(scores.tokens == request.prompt_tokens);
      REQUIRE(scores.logprobs.size() == request.prompt_tokens.size());
      for (std::size_t i = 1; i < scores.logprobs.size(); ++i) {
        const TokenId token = request.prompt_tokens[i];
        const double p = models::scripted_row(
            script, std::span(request.prompt_tokens).first(i))[std::size_t(token)];
        CHECK(scores.logprobs[i].token == token);
        CHECK(std::exp(double(scores.logprobs[i].logprob)) == doctest::Approx(p));
        CHECK(scores.logprobs[i].top.size() == 2);
      }
      if (expected)
        check_same(scores.logprobs, expected->logprobs);
      expected = scores;
    }
  }
}

TEST_CASE("a prompt of one token has a score that means nothing, and one event") {
  Engine engine = open_engine(simulated());
  Request request;
  request.prompt_tokens = {7};
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  const Answer answer = ask(engine, request);
  REQUIRE(answer.prompt.size() == 1);
  CHECK(answer.prompt.front().tokens == std::vector<TokenId>{7});
}

TEST_CASE("sources say what was drafted, and what was drafted under a verification") {
  EngineOptions options = simulated({.acceptance = 1}); // every draft is right
  options.window = 3;
  Engine engine = open_engine(options);
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = 40;
  const auto sources = [&](SpeculationMode mode) {
    request.speculation = mode;
    return ask(engine, request).sources;
  };
  const auto plain = sources(SpeculationMode::off);
  CHECK(std::count(plain.begin(), plain.end(), TokenSource::target) == 40);
  const auto sync = sources(SpeculationMode::sync);
  CHECK(std::count(sync.begin(), sync.end(), TokenSource::lookahead) == 0);
  CHECK(std::count(sync.begin(), sync.end(), TokenSource::draft) >= 25); // 3 of 4
  // The first window is drafted while nobody verifies; the first token is the prompt pass's.
  const auto overlap = sources(SpeculationMode::overlap);
  CHECK(overlap[0] == TokenSource::target);
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(overlap[i] == TokenSource::draft);
  for (std::size_t i = 4; i + 1 < overlap.size(); ++i)
    CHECK(overlap[i] == TokenSource::lookahead);
}
