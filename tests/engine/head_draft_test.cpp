// An EAGLE-3 head as the draft: promises 1, 2 and 4 on the demo target and its head.
#include "tests/engine/draft_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions with_head() {
  EngineOptions options;
  options.drafters = {"eagle3:demo"};
  options.threads = 1;
  return options;
}

/// On simulated devices, whose time a test holds in its hand.
EngineOptions simulated_head() {
  EngineOptions options = with_head();
  options.devices = {"sim:10ms+0.1ms/row"};
  options.draft_device = "sim:1ms+0.1ms/row";
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(48) << 20;
  return options;
}

const char* const prompt = "import os\nimport sys\n\nclass Stack:\n    def __init__(self):\n"
                           "        self.items = []\n\n    def push(self, item):\n";

/// Greedy, and drawn by coupling.
std::vector<Request> head_requests() {
  return {repeatable(prompt, 24), repeatable("class Queue:\n    def ", 24, 7)};
}

/// How many drafted tokens were accepted in each round, of an answer in `sync`: the target says
/// each round's last token. The first round has no draft.
std::vector<int> accepted_by_round(const Answer& answer, std::vector<std::size_t>* ends = nullptr) {
  std::vector<int> rounds(1, 0);
  for (std::size_t i = 0; i < answer.sources.size(); ++i) {
    if (answer.sources[i] == TokenSource::draft) {
      ++rounds.back();
      continue;
    }
    rounds.push_back(0);
    if (ends)
      ends->push_back(i + 1);
  }
  return rounds;
}

} // namespace

TEST_CASE("a head on the target changes no token, whatever the mode and the device") {
  const auto expected = plain_answers_of({}, head_requests());
  for (const SpeculationMode mode :
       {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
    EngineOptions options = with_head();
    options.speculation = mode;
    CHECK(answers_of(options, head_requests()) == expected);
  }
  EngineOptions options = with_head();
  options.draft_device = "cpu:0";
  options.weights = WeightFormat::mxfp8;
  CHECK(answers_of(options, head_requests()) == plain_answers_of(options, head_requests()));
  options = simulated_head(); // whose figures no other work on this machine changes
  options.speculation = SpeculationMode::overlap;
  SpeculationStats stats;
  CHECK(answers_of(options, head_requests(), &stats) == expected);
  MESSAGE("acceptance ", stats.acceptance_rate());
  CHECK(stats.acceptance_rate() > 0.2);
}

TEST_CASE("after a rejection a head drafts as if it had never read the rejected tokens") {
  EngineOptions options = simulated_head();
  options.speculation = SpeculationMode::sync;
  options.window = 4;
  Engine engine = open_engine(options);
  Request request = repeatable(prompt, 40);
  request.ignore_eos = true;
  const Answer whole = ask(engine, request);
  std::vector<std::size_t> ends;
  const std::vector<int> rounds = accepted_by_round(whole, &ends);
  int rejected = 0;
  for (std::size_t round = 1; round + 2 < rounds.size(); ++round) {
    Request later = request; // begins with the round's tokens as its prompt, short of the last
    later.prompt_tokens = engine.tokenize(prompt);
    later.prompt.clear();
    later.prompt_tokens.insert(later.prompt_tokens.end(), whole.tokens.begin(),
                               whole.tokens.begin() + std::ptrdiff_t(ends[round]) - 1);
    const std::vector<int> again = accepted_by_round(ask(engine, later));
    CHECK(again.at(1) == rounds[round + 1]);
    rejected += rounds[round] < 4;
  }
  CHECK(rejected > 2);
}

TEST_CASE("what the prefix cache holds of a prompt serves a head, too") {
  EngineOptions options = simulated_head();
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  Engine engine = open_engine(options);
  Request request = repeatable(prompt, 24);
  const Answer first = ask(engine, request);
  const Answer second = ask(engine, request);
  CHECK(first.end().usage.cached_tokens == 0);
  CHECK(second.end().usage.cached_tokens > 0);
  CHECK(second.tokens == first.tokens);
  CHECK(accepted_by_round(second) == accepted_by_round(first));
}

TEST_CASE("killed again and again, a head and its target lose no token, and a head is disabled") {
  check_survives_kills(simulated_head(), head_requests(), true, 10);
}

TEST_CASE("an engine says what its head is") {
  const Engine engine = open_engine(with_head());
  const ModelInfo head = engine.draft_model().value();
  CHECK(head.name == "eagle3:demo");
  CHECK(head.architecture == "EAGLE-3 head");
  CHECK(head.parameters < 500'000);
}

TEST_CASE("a head that cannot serve the target is refused, and what to do is said") {
  EngineOptions standby = with_head();
  standby.reserve_device = "cpu:0";
  check_refused(standby, {"EngineOptions::reserve_device", "EAGLE-3"});
  EngineOptions other = with_head();
  other.target = ScriptedPair().target();
  check_refused(other, {"hidden states", "another target"});
  EngineOptions nowhere = with_head();
  nowhere.drafters = {"eagle3:/nowhere/at/all"};
  check_refused(nowhere, {"/nowhere/at/all"});
  EngineOptions model = with_head();
  model.drafters = {std::string("eagle3:") + PACELINE_DEMO_MODELS + "/draft"};
  check_refused(model, {"config.json", "no EAGLE-3 head"});
}
