// Heads on the target as drafts: promises 1, 2 and 4 on the demo target with its EAGLE-3 head, on a
// recurrent target with the block that its checkpoint brings (multi-token prediction), on tiny
// Gemmas with their assistants, and on a target with a DFlash drafter, which writes blocks.
#include "tests/engine/draft_checks.hpp"
#include "tests/engine/gemma_with_assistant.hpp"
#include "tests/engine/model_with_block.hpp"
#include "tests/engine/target_with_drafter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions with_head() {
  EngineOptions options;
  options.drafters = {"eagle3:demo"};
  options.threads = 1;
  return options;
}

const char* const prompt = "import os\nimport sys\n\nclass Stack:\n    def __init__(self):\n"
                           "        self.items = []\n\n    def push(self, item):\n";

/// Greedy, and drawn by coupling.
std::vector<Request> head_requests() {
  return {repeatable(prompt, 24), repeatable("class Queue:\n    def ", 24, 7)};
}

const ModelWithBlock& model_with_block() {
  static const ModelWithBlock model;
  return model;
}

const GemmaWithAssistant& gemma(std::size_t number) {
  static const GemmaWithAssistant plain(0);
  static const GemmaWithAssistant clusters(1);
  return number == 0 ? plain : clusters;
}

const TargetWithDrafter& target_with_drafter() {
  static const TargetWithDrafter target;
  return target;
}

/// The same request, of tokens that the tiny model knows.
Request tiny(Request request, int first) {
  request.prompt.clear();
  for (int i = 0; i < 19; ++i)
    request.prompt_tokens.push_back(TokenId((first + 37 * i + i * i) % tiny_vocabulary));
  request.ignore_eos = true;
  return request;
}

/// A target with a head, and what to ask of it.
struct HeadCase {
  std::string name;
  EngineOptions options;
  std::vector<Request> requests;

  EngineOptions simulated() const { return on_simulated(options); }
  bool may_have_trees() const { return name != "MTP"; } ///< Its target is recurrent.
  Answers plain() const { return plain_answers_of(options, requests); }
};

std::vector<HeadCase> head_cases() {
  EngineOptions eagle3 = with_head();
  EngineOptions block = with_head();
  block.target = model_with_block().path();
  block.drafters = {"mtp"};
  const auto tiny_requests = [] {
    std::vector<Request> requests = head_requests();
    for (int i = 0; Request & request : requests)
      request = tiny(request, 5 + 11 * i++);
    return requests;
  };
  EngineOptions dflash = with_head();
  dflash.target = target_with_drafter().path();
  dflash.drafters = {target_with_drafter().drafter()};
  std::vector<HeadCase> cases{{"EAGLE-3", eagle3, head_requests()},
                              {"MTP", block, tiny_requests()},
                              {"DFlash", dflash, tiny_requests()}};
  for (const std::size_t number : {0, 1}) {
    EngineOptions assistant = with_head();
    assistant.target = gemma(number).target();
    assistant.drafters = {gemma(number).draft()};
    cases.push_back({"Gemma 4", assistant, tiny_requests()});
  }
  return cases;
}

HeadCase head_case(std::string_view name) {
  const std::vector<HeadCase> cases = head_cases();
  return *std::ranges::find(cases, name, &HeadCase::name);
}

/// How many drafted tokens were accepted in each round, of an answer in `sync`: the target says
/// each round's last token. The first round has no draft, and the last number is of no round.
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

/// An answer, and how many tokens were accepted in each of its rounds.
struct Told {
  Told(Engine& engine, const Request& asked, int tokens) : request(asked) {
    request.max_tokens = tokens;
    request.ignore_eos = true;
    if (request.prompt_tokens.empty())
      request.prompt_tokens = engine.tokenize(std::exchange(request.prompt, {}));
    whole = ask(engine, request);
    rounds = accepted_by_round(whole, &ends);
  }
  /// Asks for what comes behind a round: its tokens, short of the last, end the prompt. Returns how
  /// many tokens are accepted in the first round with a draft.
  int accepted_behind(Engine& engine, std::size_t round) const {
    Request later = request;
    later.prompt_tokens.insert(later.prompt_tokens.end(), whole.tokens.begin(),
                               whole.tokens.begin() + std::ptrdiff_t(ends[round]) - 1);
    return accepted_by_round(ask(engine, later)).at(1);
  }
  /// The last round that is looked at: those behind it may have a shorter window.
  std::size_t last() const { return rounds.size() - 4; }

  Request request;
  Answer whole;
  std::vector<int> rounds;
  std::vector<std::size_t> ends;
};

} // namespace

TEST_CASE("a head on the target changes no token, whatever the mode and the device") {
  for (const HeadCase& of : head_cases()) {
    CAPTURE(of.name);
    const Answers expected = of.plain();
    for (const SpeculationMode mode :
         {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
      EngineOptions options = of.options;
      options.speculation = mode;
      CHECK(answers_of(options, of.requests) == expected);
    }
    EngineOptions options = of.options;
    options.draft_devices = {"cpu:0"};
    options.weights = WeightFormat::mxfp8;
    CHECK(answers_of(options, of.requests) == plain_answers_of(options, of.requests));
    if (of.may_have_trees()) {
      SpeculationStats stats;
      options = of.options;
      options.speculation = SpeculationMode::sync;
      options.window = 4;
      options.tree_rows = 12;
      CHECK(answers_of(options, of.requests, &stats) == expected);
      CHECK(stats.tree_tokens > 0);
    }
    options = of.simulated(); // whose figures no other work on this machine changes
    options.speculation = SpeculationMode::overlap;
    SpeculationStats stats;
    CHECK(answers_of(options, of.requests, &stats) == expected);
    MESSAGE(of.name, ": acceptance ", stats.acceptance_rate());
    CHECK(stats.acceptance_rate() > 0.2);
    CHECK(stats.acceptance_rate() < 0.95);
  }
}

TEST_CASE("after a rejection a head drafts as if it had never read the rejected tokens") {
  for (const HeadCase& of : head_cases()) {
    CAPTURE(of.name);
    EngineOptions options = of.simulated();
    options.speculation = SpeculationMode::sync;
    options.window = 4;
    Engine engine = open_engine(options);
    const Told told(engine, of.requests.front(), 40);
    int rejected = 0;
    for (std::size_t round = 1; round <= told.last(); ++round) {
      CHECK(told.accepted_behind(engine, round) == told.rounds[round + 1]);
      rejected += told.rounds[round] < 4;
    }
    CHECK(rejected > 2);
  }
}

TEST_CASE("after a path of a token tree a head drafts as if the target had been fed with it") {
  for (const HeadCase& of : head_cases()) {
    if (!of.may_have_trees())
      continue;
    CAPTURE(of.name);
    EngineOptions options = of.simulated();
    options.speculation = SpeculationMode::sync;
    options.window = 4;
    options.tree_rows = 12;
    options.page_tokens = 2; // A guess begins a page, or goes on in one.
    Engine engine = open_engine(options);
    const Told told(engine, of.requests.back(), 60);
    std::uint64_t behind_guesses = 0; // The path's last row says a token, of no round.
    for (std::size_t round = 1; round <= told.last(); ++round) {
      const int again = told.accepted_behind(engine, round);
      const int accepted = told.rounds[round + 1];
      behind_guesses += again > 0 && accepted == 0;
      CHECK((again == accepted || accepted == 0));
    }
    const std::uint64_t on_paths = told.whole.end().speculation.tree_tokens;
    MESSAGE(of.name, ": ", on_paths, " tokens of paths");
    CHECK(on_paths > 4);
    CHECK(behind_guesses <= on_paths);
  }
}

TEST_CASE("what the prefix cache holds of a prompt serves a head, too") {
  for (const HeadCase& of : head_cases()) {
    CAPTURE(of.name);
    EngineOptions options = of.simulated();
    options.speculation = SpeculationMode::sync;
    options.window = 3;
    Engine engine = open_engine(options);
    const Answer first = ask(engine, of.requests.front());
    const Answer second = ask(engine, of.requests.front());
    CHECK(first.end().usage.cached_tokens == 0);
    CHECK(second.end().usage.cached_tokens > 0);
    CHECK(second.tokens == first.tokens);
    CHECK(accepted_by_round(second) == accepted_by_round(first));
  }
}

TEST_CASE("killed again and again, a head and its target lose no token, and a head is disabled") {
  for (const HeadCase& of : head_cases()) {
    CAPTURE(of.name);
    check_survives_kills(of.simulated(), of.requests, true, 10);
  }
}

TEST_CASE("the block that a checkpoint brings drafts for it, unless something else is asked for") {
  EngineOptions options;
  options.target = model_with_block().path();
  CHECK(open_engine(options).draft_model().value().name == "mtp");
  CHECK(open_engine(options).draft_model().value().architecture == "MTP head");
  options.devices = {"cpu:0", "cpu:1"}; // In stages, where there is no row for it to read.
  const TinyModel plain("GLM-4.5");
  options.target = plain.path();
  CHECK_FALSE(open_engine(options).draft_model());
  options.drafters = {"mtp"};
  check_refused(options, {"a head reads a target on one device"});
  options.devices = {"cpu"};
  check_refused(options, {"multi-token prediction"});
}

TEST_CASE("one pass writes a window of a drafter of blocks, and none is longer than a block") {
  HeadCase of = head_case("DFlash");
  of.options.speculation = SpeculationMode::sync;
  const auto rounds = [&](int window) {
    EngineOptions options = of.simulated();
    options.draft_devices = {"sim:4ms"}; // a pass, however many rows it has
    options.window = window;
    EngineWorld world(options);
    const auto asked = world.submit(of.requests.front());
    REQUIRE(world.run_until_ended({asked}));
    const std::vector<int> accepted = accepted_by_round(asked->answer);
    CHECK(std::ranges::max(accepted) <= 5); // its blocks have six rows, one of them of a token
    // Five passes for a window would take five times what one takes.
    CHECK(world.metrics().draft_busy_seconds < 0.012 * double(accepted.size()));
    return accepted;
  };
  CHECK(rounds(5) == rounds(20));
}

TEST_CASE("the form of an answer holds for each token of a block") {
  HeadCase of = head_case("DFlash");
  of.options.speculation = SpeculationMode::sync;
  of.options.window = 5;
  for (Request& request : of.requests) {
    request.constraint = Constraint{Constraint::Kind::regex, "([a-c][d-f]){30}"};
    request.ignore_eos = false;
  }
  SpeculationStats stats;
  CHECK(answers_of(of.simulated(), of.requests, &stats) == of.plain());
  MESSAGE("acceptance ", stats.acceptance_rate());
  CHECK(stats.acceptance_rate() > 0.2); // tokens that may not stand there are not drafted
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
  check_refused(standby, {"EngineOptions::reserve_device", "a head on the target"});
  EngineOptions other = with_head();
  other.target = ScriptedPair().target();
  check_refused(other, {"hidden states", "another target"});
  EngineOptions nowhere = with_head();
  nowhere.drafters = {"eagle3:/nowhere/at/all"};
  check_refused(nowhere, {"/nowhere/at/all"});
  EngineOptions model = with_head();
  model.drafters = {std::string("eagle3:") + PACELINE_DEMO_MODELS + "/draft"};
  check_refused(model, {"config.json", "no EAGLE-3 head"});
  EngineOptions assistant = with_head();
  assistant.drafters = {gemma(0).draft()};
  check_refused(assistant, {"the assistant was made for", "Gemma 4"});
  assistant.target = gemma(0).target();
  assistant.devices = {"cpu:0", "cpu:1"};
  check_refused(assistant, {"a head reads a target on one device"});
}
