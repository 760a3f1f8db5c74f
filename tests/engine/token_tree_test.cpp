// Rows beside windows: guesses that took a rejected token's place, and what was drafted behind
// them.
#include "tests/engine/draft_checks.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

struct Outcome {
  std::vector<std::vector<TokenId>> tokens;
  std::uint64_t rounds = 0;
  std::uint64_t tree_tokens = 0; ///< By the requests' own figures.
  Metrics metrics;
};

/// Several requests in one batch, half of them greedy.
Outcome outcome_of(EngineOptions options, int requests = 4) {
  Engine engine = open_engine(std::move(options));
  std::vector<Stream> streams;
  for (int i = 0; i < requests; ++i) {
    Request request = request_of(5 + 3 * i, 60, i);
    request.ignore_eos = true;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = std::uint64_t(i);
    request.verify = VerifyRule::coupled;
    streams.push_back(submit(engine, request));
  }
  Outcome outcome;
  for (Stream& stream : streams) {
    const Answer answer = read_all(stream);
    outcome.tokens.push_back(answer.tokens);
    outcome.rounds += answer.end().speculation.rounds;
    outcome.tree_tokens += answer.end().speculation.tree_tokens;
  }
  outcome.metrics = engine.metrics();
  return outcome;
}

EngineOptions waiting(int window, std::optional<int> tree_rows) {
  EngineOptions options = simulated({.acceptance = 0.6});
  options.speculation = SpeculationMode::sync;
  if (window > 0)
    options.window = window;
  options.tree_rows = tree_rows;
  return options;
}

} // namespace

TEST_CASE("Tokens are the same whatever rows stand beside windows, in any pages and stages") {
  EngineOptions plain = simulated();
  plain.speculation = SpeculationMode::off;
  const auto tokens = outcome_of(plain).tokens;
  for (const int window : {1, 3, 8})
    for (const int rows : {1, 6, 48})
      for (const auto& [page_tokens, stages] : {std::pair(2, 1), {16, 1}, {2, 3}}) {
        CAPTURE(window);
        CAPTURE(rows);
        CAPTURE(page_tokens);
        CAPTURE(stages);
        EngineOptions options = waiting(window, rows);
        options.page_tokens = page_tokens;
        options.devices.assign(std::size_t(stages), options.devices.front());
        const Outcome outcome = outcome_of(options);
        CHECK(outcome.tokens == tokens);
        CHECK(outcome.tree_tokens > 4);
        CHECK(outcome.tree_tokens == outcome.metrics.tree_tokens);
        CHECK(outcome.metrics.tree_rows >= outcome.metrics.rounds / 2);
      }
}

TEST_CASE("Rows beside windows leave the demo pair's text as it is, over stages, too") {
  const auto answer = [](SpeculationMode mode, int rows, int stages = 1) {
    EngineOptions options;
    options.target = std::string(PACELINE_DEMO_MODELS) + "/target";
    options.drafters = {std::string(PACELINE_DEMO_MODELS) + "/draft"};
    options.devices = {"cpu"};
    if (stages == 2)
      options.devices = {"cpu:0", "cpu:1"};
    options.speculation = mode;
    options.window = 4;
    options.tree_rows = rows;
    Engine engine = open_engine(options);
    Request request;
    request.prompt = "def quick_sort(values):\n    ";
    request.max_tokens = 60;
    request.sampling.temperature = 0;
    return ask(engine, request);
  };
  const Answer plain = answer(SpeculationMode::off, 0);
  for (const auto& [rows, stages] : {std::pair(3, 1), {24, 1}, {24, 2}}) {
    const Answer with_tree = answer(SpeculationMode::sync, rows, stages);
    CHECK(with_tree.tokens == plain.tokens);
    CHECK(with_tree.end().speculation.tree_tokens > 4);
  }
}

TEST_CASE("Rows beside windows save rounds, the more the more there are") {
  std::uint64_t before = outcome_of(waiting(4, 0)).rounds;
  for (const int rows : {2, 12, 48}) {
    const std::uint64_t rounds = outcome_of(waiting(4, rows)).rounds;
    CHECK(rounds < before);
    before = rounds;
  }
}

TEST_CASE(
    "Rows that nobody counted stand beside windows where they are free, not where they cost") {
  for (const bool free : {true, false}) {
    EngineOptions options = waiting(0, {});
    options.devices = {free ? "sim:10ms+0.01ms/row" : "sim:10ms+5ms/row"};
    options.max_num_seqs = 1;
    const Outcome outcome = outcome_of(options, 12);
    CHECK((outcome.metrics.tree_rows > 500) == free);
    CHECK((outcome.metrics.tree_tokens > 50) == free);
  }
}

TEST_CASE("A sequence without pages to spare goes on without rows beside its windows") {
  EngineOptions options = waiting(4, 48);
  const auto tokens = outcome_of(options).tokens;
  options.page_tokens = 4;
  options.kv_memory_bytes = 4096;
  CHECK(outcome_of(options).tokens == tokens);
}

TEST_CASE("Rows for token trees are refused where no windows have any beside them") {
  const EngineOptions rows = waiting(4, 8);
  EngineOptions ahead = rows;
  ahead.speculation = SpeculationMode::overlap;
  EngineOptions lookup = rows;
  lookup.drafters = {"suffix"};
  for (const EngineOptions& options : {ahead, lookup})
    check_refused(options, {"EngineOptions::tree_rows is 8", "no windows have rows"});
  EngineOptions off = ahead;
  off.speculation = SpeculationMode::off;
  ahead.tree_rows = 0;
  for (const EngineOptions& options : {off, ahead})
    open_engine(options);
}
