// What a draft may be: slow, short-sighted, wrong, or the caller's own code.
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

using namespace paceline;
using namespace paceline::testing;

namespace {

Request request_of(int prompt_tokens, int max_tokens) {
  Request request;
  for (int i = 0; i < prompt_tokens; ++i)
    request.prompt_tokens.push_back((i * i + 3 * i) % 32);
  request.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> plain_tokens(EngineOptions options, const Request& request) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  return ask(engine, request).tokens;
}

/// A caller's drafter made of one function.
class Lambda final : public Drafter {
public:
  using Body = std::function<Proposal(std::span<const TokenId>, int)>;
  explicit Lambda(Body body) : body_(std::move(body)) {}
  Proposal propose(std::span<const TokenId> context, int count, const DrafterSampling&) override {
    return body_(context, count);
  }

private:
  Body body_;
};

EngineOptions with_drafter(Lambda::Body body) {
  EngineOptions options = simulated();
  options.drafter = std::make_shared<Lambda>(std::move(body));
  return options;
}

/// What followed the last two tokens when they came before.
Proposal repeat_history(std::span<const TokenId> context, int count) {
  Proposal proposal;
  if (context.size() < 3)
    return proposal;
  const auto tail = context.last(2);
  const auto past = context.first(context.size() - 1);
  const auto at = std::find_end(past.begin(), past.end(), tail.begin(), tail.end());
  if (at == past.end())
    return proposal;
  for (auto next = at + 2; next != context.end() && count-- > 0; ++next)
    proposal.tokens.push_back(*next);
  return proposal;
}

} // namespace

TEST_CASE("a draft that reads a long prompt later than the target catches up and helps") {
  EngineOptions options = simulated({.acceptance = 1, .context = 2048, .draft_context = 2048});
  options.draft_device = "sim:100us+0.2ms/row"; // 256 rows take 51 ms, the target's prefill 60 ms
  options.window = 4;
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    options.speculation = mode;
    const Request request = request_of(1000, 200);
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == plain_tokens(options, request));
    CHECK(answer.end().speculation.accepted >= 100);
  }
}

TEST_CASE("the longest window has the time it takes") {
  EngineOptions options = simulated({.acceptance = 1});
  options.speculation = SpeculationMode::sync;
  options.draft_device = "sim:5ms"; // a window takes 160 ms
  options.window = 32;
  Engine engine = open_engine(options);
  const Answer answer = ask(engine, request_of(4, 165));
  // Of the first window nobody knew how long it would take: it is given up for 50 ms.
  CHECK(answer.end().speculation.rounds <= 6 + 6);
}

TEST_CASE("a draft with a shorter context helps as far as it reaches") {
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    EngineOptions options = simulated({.acceptance = 1, .context = 256, .draft_context = 64});
    options.speculation = mode;
    const Request request = request_of(20, 200);
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == plain_tokens(options, request));
    CHECK(answer.end().speculation.accepted >= 30); // of the 44 it can draft
    CHECK(answer.end().speculation.accepted <= 45);
    CHECK(ask(engine, request_of(100, 50)).end().speculation.accepted == 0);
  }
}

TEST_CASE("a caller's deterministic drafter is judged like a model") {
  const EngineOptions options = with_drafter(repeat_history);
  for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled, VerifyRule::match})
    for (const bool greedy : {true, false}) {
      CAPTURE(std::string(to_string(rule)));
      CAPTURE(greedy);
      Request request = request_of(40, 60);
      request.verify = rule;
      request.sampling.temperature = greedy ? 0.0f : 1.0f;
      request.sampling.seed = 3;
      Engine engine = open_engine(options);
      const Answer answer = ask(engine, request);
      CHECK(answer.tokens.size() == 60);
      if (greedy || rule == VerifyRule::coupled)
        CHECK(answer.tokens == plain_tokens(options, request));
    }
}
