// What a draft may be: slow, short-sighted, wrong, or the caller's own code.
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
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

/// What plain decoding says after `context`, of which it made `expected` behind six prompt tokens.
std::vector<TokenId> following(std::span<const TokenId> context,
                               const std::vector<TokenId>& expected, int count) {
  const auto done = std::min(context.size() - 6, expected.size());
  const auto left = std::min(std::size_t(count), expected.size() - done);
  const auto begin = expected.begin() + std::ptrdiff_t(done);
  return {begin, begin + std::ptrdiff_t(left)};
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

TEST_CASE("a caller's drafter that samples keeps the promise of rejection and of coupled") {
  // Uniform over all words, drawn with a generator of its own: only the row has to be the truth.
  const auto random = std::make_shared<std::mt19937>(5);
  const EngineOptions options = with_drafter([random](std::span<const TokenId>, int count) {
    Proposal proposal;
    for (int i = 0; i < count; ++i) {
      proposal.tokens.push_back(TokenId((*random)() % 32));
      proposal.log_q.emplace_back(32, -std::log(32.0f));
    }
    return proposal;
  });
  Engine engine = open_engine(options);
  Request request = request_of(10, 60);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 3;
  request.verify = VerifyRule::coupled;
  CHECK(ask(engine, request).tokens == plain_tokens(options, request));
  request.verify = VerifyRule::rejection;
  const Answer answer = ask(engine, request);
  CHECK(answer.tokens.size() == 60);
  CHECK(answer.end().speculation.judged > 0);
}

TEST_CASE("a caller's drafter that fails in any way costs speed only") {
  struct Way {
    const char* name;
    Lambda::Body body;
  };
  const std::vector<Way> ways{
      {"throws", [](auto, int) -> Proposal { throw std::runtime_error("no idea"); }},
      {"throws what is no exception", [](auto, int) -> Proposal { throw 42; }},
      {"gives nothing", [](auto, int) { return Proposal(); }},
      {"gives ids that do not exist",
       [](auto, int) {
         return Proposal{{32, -1, 7}, {}};
       }},
      {"gives too much",
       [](auto, int count) {
         return Proposal{std::vector<TokenId>(std::size_t(count) + 50, 3), {}};
       }},
      {"gives rows that are no distributions",
       [](auto, int) {
         return Proposal{{1, 2}, {std::vector<float>(32, NAN), std::vector<float>(3, 0)}};
       }},
      {"gives fewer rows than tokens",
       [](auto, int) {
         return Proposal{{1, 2, 3}, {std::vector<float>(32, 0)}};
       }},
  };
  for (const Way& way : ways)
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap})
      for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled}) {
        CAPTURE(std::string(way.name));
        CAPTURE(std::string(to_string(mode)));
        CAPTURE(std::string(to_string(rule)));
        EngineOptions options = with_drafter(way.body);
        options.speculation = mode;
        Request request = request_of(6, 40);
        request.sampling.temperature = 0.8f;
        request.sampling.seed = 4;
        request.verify = rule;
        Engine engine = open_engine(options);
        const Answer answer = ask(engine, request);
        CHECK(answer.tokens.size() == 40);
        CHECK(answer.end().reason == FinishReason::length);
        if (rule == VerifyRule::coupled)
          CHECK(answer.tokens == plain_tokens(options, request));
        CHECK(ask(engine, request).tokens.size() == 40); // and it goes on
      }
}

TEST_CASE("a drafter that failed once is asked again") {
  const Request request = request_of(6, 100);
  const std::vector<TokenId> expected = plain_tokens(simulated(), request);
  for (const bool standard : {true, false}) {
    CAPTURE(standard);
    const auto calls = std::make_shared<int>(0);
    EngineOptions options = with_drafter([=](std::span<const TokenId> context, int count) {
      if (++*calls == 3 && standard)
        throw std::runtime_error("no idea");
      if (*calls == 3)
        throw 42;
      return Proposal{following(context, expected, count), {}};
    });
    options.speculation = SpeculationMode::sync;
    options.window = 4;
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == expected);
    CHECK(answer.end().speculation.accepted > 60);
  }
}

TEST_CASE("a drafter that proposes less than it was asked for is not taken for late") {
  const Request request = request_of(6, 100);
  const std::vector<TokenId> expected = plain_tokens(simulated(), request);
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    // A whole window, and no lookahead: when the verification ends it is still being asked for.
    EngineOptions options = with_drafter([=](std::span<const TokenId> context, int count) {
      return Proposal{following(context, expected, count > 4 ? 0 : count), {}};
    });
    options.speculation = mode;
    options.window = 4;
    options.draft_device = "sim:15ms";
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == expected);
    CHECK(answer.end().speculation.accepted > 70); // four of five tokens
  }
}

TEST_CASE("a drafter that is slow is waited for until it counts as dead, and then left alone") {
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = with_drafter(repeat_history);
    options.draft_device = "sim:30s";
    options.speculation = mode;
    const Request request = request_of(40, 200);
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == plain_tokens(options, request));
    CHECK(answer.end().timing.total_seconds < 15); // 200 steps of 10 ms, and the stall deadline
  }
}
