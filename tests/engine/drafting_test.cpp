// What a draft may be: slow, short-sighted, wrong, or the caller's own code.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

using namespace paceline;
using namespace paceline::testing;

namespace {

std::vector<TokenId> plain_tokens(EngineOptions options, const Request& request) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  return ask(engine, request).tokens;
}

/// A caller's drafter made of one function, asked for one sequence after the other.
class Lambda final : public Drafter {
public:
  using Body = std::function<void(DraftTask&)>;
  explicit Lambda(Body body) : body_(std::move(body)) {}
  void propose(std::span<DraftTask* const> tasks) override {
    for (DraftTask* task : tasks)
      body_(*task);
  }

private:
  Body body_;
};

EngineOptions with_drafter(Lambda::Body body) {
  EngineOptions options = simulated();
  options.custom_drafter = std::make_shared<Lambda>(std::move(body));
  return options;
}

/// What followed the last two tokens when they came before.
void repeat_history(DraftTask& task) {
  const std::vector<TokenId> context(task.context().begin(), task.context().end());
  if (context.size() < 3)
    return;
  const auto past = context.end() - 1;
  const auto at = std::find_end(context.begin(), past, context.end() - 2, context.end());
  if (at == past)
    return;
  for (auto next = at + 2; next != context.end() && task.wanted() > 0; ++next)
    task.propose(*next);
}

/// Proposes what plain decoding says, of which it made `expected` behind six prompt tokens.
void foretell(DraftTask& task, const std::vector<TokenId>& expected) {
  for (auto done = task.context().size() - 6; task.wanted() > 0 && done < expected.size(); ++done)
    task.propose(expected[done]);
}

} // namespace

TEST_CASE("a draft that reads a long prompt later than the target catches up and helps") {
  EngineOptions options = simulated({.acceptance = 1, .context = 2048, .draft_context = 2048});
  options.draft_devices = {
      "sim:100us+0.2ms/row"}; // 256 rows take 51 ms, the target's prefill 60 ms
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
  options.draft_devices = {"sim:5ms"}; // a window takes 160 ms
  options.window = 32;
  Engine engine = open_engine(options);
  const Answer answer = ask(engine, request_of(4, 165));
  // Nobody knew how long the first window would take: it is given up for 50 ms.
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

TEST_CASE(
    "a caller's drafter that has distributions keeps the promise of rejection and of coupled") {
  const std::vector<float> even(32, -std::log(32.0f));
  const std::vector<TokenWeight> few{{3, 1}, {5, 2}, {3, 1}}; // one of them twice
  for (const bool sparse : {false, true}) {
    CAPTURE(sparse);
    const EngineOptions options = with_drafter([=](DraftTask& task) {
      while (task.wanted() > 0)
        sparse ? task.draw(few) : task.draw(even);
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
    CHECK(engine.metrics().drafter_failures == 0);
  }
}

namespace {

/// The ways in which a drafter may fail.
struct Way {
  const char* name;
  Lambda::Body body;
};

std::vector<Way> ways_to_fail() {
  return {
      {"throws", [](DraftTask&) { throw std::runtime_error("no idea"); }},
      {"throws what is no exception", [](DraftTask&) { throw 42; }},
      {"gives an id that does not exist", [](DraftTask& task) { task.propose(32); }},
      {"gives a negative id",
       [](DraftTask& task) {
         task.draw(std::vector<TokenWeight>{{3, 1}, {-1, 1}});
       }},
      {"gives too much",
       [](DraftTask& task) {
         for (;;)
           task.propose(3);
       }},
      {"gives a row that is no distribution",
       [](DraftTask& task) { task.draw(std::vector<float>(32, NAN)); }},
      {"gives a row without mass",
       [](DraftTask& task) { task.draw(std::vector<float>(32, -INFINITY)); }},
      {"gives a row that is too short",
       [](DraftTask& task) { task.draw(std::vector<float>(3, 0)); }},
      {"gives weights that are none",
       [](DraftTask& task) {
         task.draw(std::vector<TokenWeight>{{3, NAN}});
       }},
      {"gives infinite weights",
       [](DraftTask& task) {
         task.draw(std::vector<TokenWeight>{{3, INFINITY}});
       }},
      {"gives no weights", [](DraftTask& task) { task.draw(std::vector<TokenWeight>()); }},
  };
}

} // namespace

TEST_CASE("a caller's drafter that fails in any way costs speed only, is counted and disabled") {
  for (const Way& way : ways_to_fail())
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
        CHECK(answer.end().speculation.drafter_failures > 0);
        if (rule == VerifyRule::coupled)
          CHECK(answer.tokens == plain_tokens(options, request));
        CHECK(ask(engine, request).tokens.size() == 40); // and it goes on
        for (int i = 0; i < 40 && !engine.metrics().draft_disabled; ++i)
          ask(engine, request);
        const Metrics metrics = engine.metrics();
        CHECK(metrics.draft_disabled);
        CHECK(metrics.drafter_failures == 16);
        CHECK(ask(engine, request).end().speculation.draft_disabled);
        CHECK(engine.metrics().drafter_failures == 16); // nobody asks it any more
      }
}

TEST_CASE("a drafter that gives nothing has not failed") {
  Engine engine = open_engine(with_drafter([](DraftTask&) {}));
  CHECK(ask(engine, request_of(6, 200)).tokens.size() == 200);
  CHECK(engine.metrics().drafter_failures == 0);
  CHECK_FALSE(engine.metrics().draft_disabled);
}

TEST_CASE("each sequence begins and ends for a drafter, in turn, with what was committed") {
  class Listening final : public Drafter {
  public:
    void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override {
      CHECK(sequence.scope == "mine");
      CHECK(known.emplace(sequence.id, tokens.size()).second);
      CHECK(tokens.size() >= 6); // it may have said something before it is drafted for
    }
    void end(std::uint64_t sequence, std::span<const TokenId> tokens) override {
      CHECK(known.erase(sequence) == 1);
      ended.emplace_back(tokens.begin(), tokens.end());
    }
    void propose(std::span<DraftTask* const> tasks) override {
      for (const DraftTask* task : tasks)
        CHECK(known.contains(task->sequence()));
      most = std::max(most, tasks.size());
    }
    std::map<std::uint64_t, std::size_t> known;
    std::vector<std::vector<TokenId>> ended;
    std::size_t most = 0;
  };
  const auto drafter = std::make_shared<Listening>();
  EngineOptions options = simulated();
  options.custom_drafter = drafter;
  Request request = request_of(6, 20);
  request.draft_scope = "mine";
  std::vector<TokenId> all = request.prompt_tokens;
  {
    Engine engine = open_engine(options);
    const std::vector<TokenId> said = ask_all(engine, {request, request, request})[0].tokens;
    all.insert(all.end(), said.begin(), said.end());
    ask(engine, request); // so that the last of those before is heard of
  }
  CHECK(drafter->most == 3); // in one call
  REQUIRE(drafter->ended.size() >= 3);
  CHECK(drafter->ended[0] == all);
}

TEST_CASE("a drafter that failed once is asked again") {
  const Request request = request_of(6, 100);
  const std::vector<TokenId> expected = plain_tokens(simulated(), request);
  for (const bool standard : {true, false}) {
    CAPTURE(standard);
    const auto calls = std::make_shared<int>(0);
    EngineOptions options = with_drafter([=](DraftTask& task) {
      if (++*calls == 3 && standard)
        throw std::runtime_error("no idea");
      if (*calls == 3)
        throw 42;
      foretell(task, expected);
    });
    options.speculation = SpeculationMode::sync;
    const auto said = std::make_shared<std::vector<std::string>>();
    options.log = [said](LogLevel level, const std::string& what) {
      CHECK(level == LogLevel::warning);
      said->push_back(what);
      throw 7; // which is dropped
    };
    options.window = 4;
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == expected);
    CHECK(answer.end().speculation.accepted > 60);
    CHECK(answer.end().speculation.drafter_failures == 1);
    REQUIRE(said->size() == 1);
    CHECK(said->front().starts_with("the drafter failed: "));
  }
}

TEST_CASE("a drafter that proposes less than it was asked for is not taken for late") {
  const Request request = request_of(6, 100);
  const std::vector<TokenId> expected = plain_tokens(simulated(), request);
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    // A whole window, and no lookahead: when the verification ends it is still being asked for.
    EngineOptions options = with_drafter([=](DraftTask& task) {
      if (task.wanted() <= 4)
        foretell(task, expected);
    });
    options.speculation = mode;
    options.window = 4;
    options.draft_devices = {"sim:15ms"};
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
    options.draft_devices = {"sim:30s"};
    options.speculation = mode;
    const Request request = request_of(40, 200);
    Engine engine = open_engine(options);
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == plain_tokens(options, request));
    CHECK(answer.end().timing.total_seconds < 15); // 200 steps of 10 ms, and the stall deadline
  }
}

TEST_CASE("look-ups speed up what repeats itself, and change nothing") {
  for (const char* kind : {"suffix", "ngram"})
    for (const SpeculationMode mode :
         {SpeculationMode::automatic, SpeculationMode::sync, SpeculationMode::overlap})
      for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled}) {
        CAPTURE(std::string(kind));
        CAPTURE(std::string(to_string(mode)));
        EngineOptions options = simulated();
        options.drafters = {kind};
        options.target = "scripted:vocabulary=4,memory=2,seed=4,context=256,peaked=1";
        options.draft_devices.clear();
        options.speculation = mode;
        Request request;
        request.prompt_tokens = {1, 2, 0};
        request.max_tokens = 200;
        request.verify = rule;
        Engine engine = open_engine(options);
        const Answer answer = ask(engine, request); // greedy: it goes round in circles
        CHECK(answer.tokens == plain_tokens(options, request));
        CHECK(answer.end().speculation.accepted > 50);
        CHECK(answer.end().speculation.rounds < 150);
        request.sampling.temperature = 1;
        request.sampling.seed = 5;
        request.verify = VerifyRule::coupled;
        CHECK(ask(engine, request).tokens == plain_tokens(options, request));
      }
}

TEST_CASE(
    "where nothing is to be found a look-up costs next to nothing, even where rows are dear") {
  for (const char* kind : {"suffix", "ngram"})
    for (const char* device : {"sim:10ms+0.1ms/row", "sim:10ms+1ms/row"}) {
      CAPTURE(std::string(kind));
      CAPTURE(std::string(device));
      EngineOptions options = simulated({.context = 4096});
      options.devices = {device};
      options.draft_devices.clear();
      Request request = request_of(40, 2000); // words at random: short matches that say little
      request.sampling.temperature = 1;
      request.sampling.seed = 11;
      const auto seconds = [&](const std::string& draft) {
        options.drafters = {draft};
        Engine engine = open_engine(options);
        return ask(engine, request).end().timing.decode_seconds;
      };
      const double ratio = seconds("none") / seconds(kind);
      MESSAGE(kind, " on ", device, ": ", ratio, " of the speed without");
      CHECK(ratio >= 0.97);
    }
}
