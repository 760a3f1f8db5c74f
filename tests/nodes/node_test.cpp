// A draft on a node, with the node in the same process: real sockets on loopback.
#include "tests/nodes/lying_node.hpp"
#include "tests/support/node_checks.hpp"
#include "tests/support/says.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions with_node(const nodes::Node& node) {
  EngineOptions options;
  options.threads = 1;
  options.draft_devices = {address_of(node)};
  options.faults.restart_pause_max = std::chrono::milliseconds(50);
  return options;
}

} // namespace

TEST_CASE("a node in this process: the tokens of plain decoding, in every mode") {
  const auto node = open_node();
  for (const Request& request : {repeatable("def", 48), repeatable("import os\n", 48, 7)}) {
    const auto expected = without_draft(request);
    for (const auto mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      EngineOptions options = with_node(*node);
      options.speculation = mode;
      options.window = 3;
      Engine engine = open_engine(options);
      ask_until(engine, request, expected, drafted);
      CHECK_FALSE(engine.metrics().draft_disabled);
    }
  }
}

TEST_CASE("a node in this process: rows of q that were cut are those that were drawn from") {
  const auto node = open_node();
  check_cut_rows(with_node(*node));
}

TEST_CASE("a node in this process: its forks come true, and it goes on from them") {
  constexpr int wanted = 20;
  Request with_rows = repeatable("def", 48, 7); // the likeliest token alone is left
  with_rows.verify = VerifyRule::rejection;
  with_rows.sampling.top_k = 1;
  for (const Request& request :
       {repeatable("def", 48), repeatable("import os\n", 48, 7), with_rows}) {
    const auto expected = without_draft(request);
    const auto node = open_node();
    std::atomic<int> gone_on = 0;    // windows behind a fork that came true
    LyingNode between(node->port()); // it only looks
    between.begin([&](Frame& said, const Asked& asked) {
      if (const auto news = said.as<messages::Drafted>())
        for (const auto& chain : news->chains) {
          const auto from = asked.find(chain.sequence);
          gone_on += from != asked.end() && from->second.chain == chain.chain &&
                     from->second.fork != 0 && !chain.tokens.empty();
        }
      return false;
    });
    EngineOptions options = with_node(*node);
    options.draft_devices = {"node://127.0.0.1:" + std::to_string(between.port())};
    options.speculation = SpeculationMode::overlap;
    options.lookahead = Lookahead::fork;
    options.window = 3;
    Engine engine = open_engine(options);
    const auto enough = [&] {
      return engine.metrics().fork_hits >= wanted && gone_on.load() >= wanted;
    };
    for (int answers = 0; answers < 2000 && !enough(); ++answers)
      REQUIRE(ask(engine, request).tokens == expected);
    CHECK(engine.metrics().forked > 0);
    CHECK(engine.metrics().fork_hits >= wanted);
    CHECK(gone_on.load() >= wanted);
    CHECK(engine.metrics().restarts == 0);
    CHECK_FALSE(engine.metrics().draft_disabled);
    CHECK_FALSE(between.lied());
  }
}

TEST_CASE("a node in this process: gone in the middle of an answer, and back") {
  auto node = open_node();
  const std::uint16_t port = node->port();
  const Request request = repeatable("class Stack:\n", 200, 7);
  const auto expected = without_draft(request);
  Engine engine = open_engine(with_node(*node));
  ask_until(engine, request, expected, drafted);
  Stream stream = submit(engine, request);
  REQUIRE(stream.next());
  node = nullptr;
  CHECK_FALSE(read_all(stream).end().error);
  ask_until(engine, request, expected, [](const Answer& answer) { return !drafted(answer); });
  nodes::NodeOptions again;
  again.listen.port = port;
  node = open_node(again);
  ask_until(engine, request, expected, drafted);
}

TEST_CASE("formats are refused for a draft on a node, which loads it in its own way") {
  EngineOptions options;
  options.drafters = {"demo"};
  options.draft_devices = {"node://127.0.0.1:1"};
  const auto check_refused = [](const EngineOptions& given, std::string_view what) {
    const Error error = refused(given);
    CHECK(says(error, what));
    CHECK(says(error, "EngineOptions::draft_devices"));
  };
  EngineOptions given = options;
  given.draft_kv_cache_dtype = KvCacheDtype::int8;
  check_refused(given, "EngineOptions::draft_kv_cache_dtype is int8");
  given = options;
  given.draft_activations = Activations::int8;
  check_refused(given, "EngineOptions::draft_activations is int8");
  given = options;
  given.draft_weights = WeightFormat::mxfp4;
  check_refused(given, "EngineOptions::draft_weights is mxfp4");
}
