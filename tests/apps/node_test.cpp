// A draft on another machine: real processes, real sockets.
#include "tests/apps/running_node.hpp"
#include "tests/support/node_checks.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <thread>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr const char* prompt = "class Stack:\n    def __init__(self):\n        self.items = []\n";

std::vector<Request> requests(int max_tokens = 48) {
  return {repeatable("def", max_tokens), repeatable(prompt, max_tokens, 7),
          repeatable("import os\nimport sys\n\ndef main():\n", max_tokens, 8)};
}

EngineOptions with_node(const RunningNode& node) {
  EngineOptions options;
  options.threads = 1;
  options.draft_devices = {node.address()};
  options.faults.heartbeat = std::chrono::milliseconds(400);
  options.faults.restart_pause_max = std::chrono::milliseconds(50);
  return options;
}

std::vector<std::vector<TokenId>> all_without_draft(const std::vector<Request>& asked) {
  EngineOptions plain;
  plain.threads = 1;
  plain.speculation = SpeculationMode::off;
  Engine engine = open_engine(plain);
  return tokens_of(ask_all(engine, asked));
}

} // namespace

TEST_CASE("a draft on a node: the tokens of plain decoding, in every mode and batch") {
  RunningNode node;
  const auto expected = all_without_draft(requests());
  for (const auto mode :
       {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
    EngineOptions options = with_node(node);
    options.speculation = mode;
    if (mode != SpeculationMode::automatic)
      options.window = 4;
    Engine engine = open_engine(options);
    REQUIRE(engine.draft_model());
    CHECK(engine.draft_model()->device == node.address());
    CHECK(engine.draft_model()->weight_bytes > 0);
    ask_until(engine, requests()[0], expected[0], drafted);
    std::uint64_t accepted = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Answer answer = ask(engine, requests()[i]);
      CHECK(answer.tokens == expected[i]);
      accepted += answer.end().speculation.accepted;
    }
    if (mode != SpeculationMode::automatic) // which may find that it does not pay just now
      CHECK(accepted > 0);
    CHECK(tokens_of(ask_all(engine, requests())) == expected);
    CHECK_FALSE(engine.metrics().draft_disabled);
  }
}

TEST_CASE("a draft on a node: a lookahead comes true without another word") {
  RunningNode node;
  EngineOptions options = with_node(node);
  options.speculation = SpeculationMode::overlap;
  options.window = 1; // of two tokens in a row about a third come true
  Engine engine = open_engine(options);
  const Request request = requests(96)[0];
  const auto expected = without_draft(request);
  ask_until(engine, request, expected,
            [](const Answer& answer) { return answer.end().speculation.lookahead_hits > 0; });
}

TEST_CASE("a draft on a node: whole rows of q give the tokens of a draft that is here") {
  RunningNode node;
  Request request = requests()[1];
  request.verify = VerifyRule::rejection;
  EngineOptions options;
  options.threads = 1;
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  std::vector<TokenId> expected;
  {
    Engine engine = open_engine(options);
    expected = ask(engine, request).tokens;
  }
  options.draft_devices = {node.address()};
  options.draft_top_k = 0;
  Engine engine = open_engine(options);
  // A text that begins before the node is connected is decoded plainly at first, by other noise.
  ask_until(engine, repeatable("def", 8), without_draft(repeatable("def", 8)), drafted);
  const Answer answer = ask(engine, request);
  CHECK(answer.end().speculation.rounds > 0);
  CHECK(answer.tokens == expected);
}

TEST_CASE("a draft on a node: rows that are cut before the draw are what was drawn from") {
  RunningNode node;
  check_cut_rows(with_node(node));
}

TEST_CASE("a node that is killed costs no token, and drafts again when it is back") {
  std::optional<RunningNode> node(std::in_place);
  const std::string port = node->port();
  const Request request = requests(200)[1];
  const auto expected = without_draft(request);
  Engine engine = open_engine(with_node(*node));
  ask_until(engine, request, expected, drafted);
  Stream stream = submit(engine, request);
  REQUIRE(stream.next());
  node->kill();
  CHECK(read_all(stream).end().error == std::nullopt);
  ask_until(engine, request, expected, [](const Answer& answer) { return !drafted(answer); });
  node.emplace(std::vector<std::string>(), port);
  ask_until(engine, request, expected, drafted);
  CHECK_FALSE(engine.metrics().draft_disabled);
}

TEST_CASE("a node that stands still costs no token, and drafts again when it goes on") {
  RunningNode node;
  const Request request = requests(200)[1];
  const auto expected = without_draft(request);
  Engine engine = open_engine(with_node(node));
  ask_until(engine, request, expected, drafted);
  Stream stream = submit(engine, request);
  REQUIRE(stream.next());
  node.process().send(SIGSTOP);
  CHECK(read_all(stream).end().error == std::nullopt);
  const auto deaths = engine.metrics().restarts;
  ask_until(engine, request, expected,
            [&](const Answer&) { return engine.metrics().restarts > deaths; });
  node.process().send(SIGCONT);
  ask_until(engine, request, expected, drafted);
}

TEST_CASE("a node that comes back with another model is done without") {
  std::optional<RunningNode> node(std::in_place);
  const std::string port = node->port();
  const Request request = requests()[0];
  const auto expected = without_draft(request);
  Engine engine = open_engine(with_node(*node));
  ask_until(engine, request, expected, drafted);
  node->kill();
  const ModelCopy other("draft");
  other.set_config("rope_theta", "12345.0");
  node.emplace(std::vector<std::string>{"-m", other.path()}, port);
  const auto deaths = engine.metrics().restarts;
  ask_until(engine, request, expected, [&](const Answer& answer) {
    return engine.metrics().restarts > deaths + 3 && !drafted(answer);
  });
}

TEST_CASE("an engine lets go of a node: another one finds its place") {
  RunningNode node;
  const auto expected = without_draft(requests()[0]);
  for (int i = 0; i < 5; ++i) {
    Engine engine = open_engine(with_node(node));
    ask_until(engine, requests()[0], expected, drafted);
  }
}

TEST_CASE("what a node cannot do is refused by name when the engine opens") {
  RunningNode node;
  const auto error_of = [&](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options = with_node(node);
    change(options);
    const auto engine = Engine::open(options);
    REQUIRE_FALSE(engine);
    return engine.error().text();
  };
  CHECK(contains(error_of([](auto& o) { o.drafters = {"suffix"}; }), "no draft model"));
  CHECK(contains(error_of([](auto& o) { o.drafters = {"self:mxfp4"}; }), "no draft model"));
  CHECK(contains(error_of([](auto& o) { o.virtual_time = true; }), "not virtual"));
  CHECK(contains(error_of([](auto& o) { o.draft_devices.front() += "/cuda:7"; }),
                 "no device cuda:7: give one that it has: cpu"));
  CHECK(contains(error_of([](auto& o) { o.draft_devices = {"node://127.0.0.1"}; }), "HOST:PORT"));
  CHECK(contains(error_of([](auto& o) { o.node_tls.key = "key.pem"; }), "all three"));
  const ModelCopy other("draft");
  other.set_config("rope_theta", "12345.0");
  CHECK(contains(error_of([&](auto& o) { o.drafters = {other.path()}; }), "other models (demo)"));
  node.kill();
  CHECK(contains(error_of([](auto&) {}), "start paceline node there"));
}
