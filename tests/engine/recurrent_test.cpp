// Promises 1 and 2 with a recurrent target: what a rejection takes back leaves nothing in a state.
#include "tests/engine/family_checks.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

/// One for each kind of mixer, and one whose layers have a mixer or a feed-forward.
constexpr const char* kinds[] = {"Qwen 3.5", "Granite 4", "LFM 2", "Nemotron-H"};

} // namespace

TEST_CASE("with a recurrent target: the same tokens in every mode, chunk, page, batch and team") {
  const TinyModel draft("Qwen 3");
  for (const char* name : models::test::recurrent_cases) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    const auto requests = requests_to(4);
    const Answers expected = alone(target, requests);
    for (const std::string& drafter : {draft.path(), std::string("suffix")})
      for (const SpeculationMode mode :
           {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
        CAPTURE(drafter);
        CAPTURE(int(mode));
        Engine engine = open_engine(drafting(options_of(target), drafter, mode));
        SpeculationStats stats;
        for (int round = 0; round < 2; ++round) // The second time, look-ups know the answers.
          for (std::size_t i = 0; const Answer& answer : ask_all(engine, requests)) {
            CHECK(answer.tokens == expected[i++]);
            stats.judged += answer.end().speculation.judged;
            stats.accepted += answer.end().speculation.accepted;
          }
        if (mode == SpeculationMode::automatic)
          continue;              // It may choose `off`.
        if (drafter == "suffix") // Rows that stay, too. How many depends on when who is ready.
          CHECK(stats.accepted > 5);
        else if (mode == SpeculationMode::sync)
          CHECK(stats.judged > stats.accepted + 20);
      }
  }
}

TEST_CASE("a recurrent sequence that loses its pages begins with an empty state") {
  const TinyModel target(kinds[0], {{"max_position_embeddings", 2048}});
  const auto requests = requests_to(6, 800);
  const Answers expected = alone(target, requests);
  EngineOptions options = options_of(target);
  options.drafters = {"suffix"};
  options.max_model_len = 2048;
  options.kv_memory_bytes = 1'080'000; // Five states, and pages for less than three such answers.
  Engine engine = open_engine(options);
  Answers answers;
  for (const Answer& answer : ask_all(engine, requests))
    answers.push_back(answer.tokens);
  CHECK(answers == expected);
  CHECK(engine.metrics().preemptions > 0);
}

TEST_CASE("texts that begin alike share a recurrent model's pages up to where a state was kept") {
  for (const char* name : kinds) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    EngineOptions options = options_of(target);
    options.page_tokens = 4;
    options.drafters = {"suffix"};
    Engine engine = open_engine(options);
    Request first = requests_to(4, 32).back();
    first.max_tokens = 9;
    const Answer answer = ask(engine, first);
    CHECK(answer.end().usage.cached_tokens == 0);
    Request second = first; // The conversation goes on.
    second.prompt_tokens.insert(second.prompt_tokens.end(), answer.tokens.begin(),
                                answer.tokens.end());
    second.prompt_tokens.push_back(3);
    const Answer next = ask(engine, second);
    const int kept = int(first.prompt_tokens.size() - 1) / 4 * 4;
    CHECK(next.end().usage.cached_tokens == kept);
    CHECK(next.tokens == alone(target, {second}).front());
    CHECK(ask(engine, second).end().usage.cached_tokens ==
          int(second.prompt_tokens.size() - 1) / 4 * 4);
    CHECK(ask(engine, first).tokens == answer.tokens);
    Request other = second; // It differs in the last page that is shared.
    other.prompt_tokens[std::size_t(kept) - 2] = 5;
    const Answer differs = ask(engine, other);
    CHECK(differs.end().usage.cached_tokens == 0);
    CHECK(differs.tokens == alone(target, {other}).front());
  }
}

TEST_CASE("a recurrent target that dies is recomputed") {
  const TinyModel draft("Qwen 3");
  const auto requests = requests_to(2, 32);
  for (const char* name : kinds) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    const Answers expected = alone(target, requests);
    EngineOptions options = options_of(target);
    options.drafters = {draft.path()};
    options.devices = {"sim:1ms"};
    EngineWorld world(options);
    const auto first = world.submit(requests[0]);
    const auto second = world.submit(requests[1]);
    for (const std::size_t tokens : {4, 12}) {
      REQUIRE(world.run_until([&] { return second->answer.tokens.size() >= tokens; }));
      world.kill(world.handles().stages.at(0));
    }
    REQUIRE(world.run_until_ended({first, second}));
    CHECK(first->answer.tokens == expected[0]);
    CHECK(second->answer.tokens == expected[1]);
  }
}

TEST_CASE("a recurrent target in stages: each has the states of its layers, and the same tokens") {
  const TinyModel draft("Qwen 3");
  for (const char* name : kinds) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    check_divided(target, {draft.path(), "suffix", "none"}, false);
    const auto requests = requests_to(4);
    const Answers expected = alone(target, requests);
    EngineOptions options = options_of(target, {"cpu:0", "cpu:1"});
    options.stage_layers = {3, 1}; // One of them has attention, states or a feed-forward alone.
    options.page_tokens = 2;
    options.window = 3;
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      CAPTURE(int(mode));
      options.drafters = {mode == SpeculationMode::sync ? draft.path() : "suffix"};
      options.speculation = mode;
      CHECK(answers_of(options, requests) == expected);
    }
  }
}

TEST_CASE("a recurrent draft of the target's own weights: the same tokens in every mode") {
  for (const char* name : models::test::recurrent_cases) {
    CAPTURE(std::string(name));
    check_modes(TinyModel(name));
  }
}

TEST_CASE("a recurrent draft for another target: the same tokens, with look-ups beside it, and few "
          "states") {
  const TinyModel target("Qwen 3");
  const auto requests = requests_to(4);
  const Answers expected = alone(target, requests);
  for (const char* name : kinds) {
    CAPTURE(std::string(name));
    const TinyModel draft(name);
    for (const bool lookup : {false, true}) {
      EngineOptions options = options_of(target);
      options.drafters = {draft.path()};
      if (lookup)
        options.drafters.emplace_back("suffix");
      options.max_num_seqs = 2;
      CHECK(answers_of(options, requests) == expected);
    }
  }
}

TEST_CASE("what recurrent models do not do yet is refused by name") {
  const TinyModel target(kinds[0]);
  EngineOptions options = options_of(target);
  options.drafters = {target.path()};
  options.draft_devices = {"cpu:0", "cpu:1"};
  check_refused(options, {"recurrent layers", "one device"});
  options.drafters = {};
  options.draft_devices = {};
  options.devices = {"cpu:0", "cpu:1"};
  options.tensor_parallel_size = 2;
  check_refused(options, {"recurrent layers"});
}
