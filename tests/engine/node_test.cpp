// A draft on a node, with the node in the same process: real sockets on loopback.
#include "actors/node/node.hpp"
#include "tests/support/node_checks.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

std::unique_ptr<actors::Node> open_node(std::uint16_t port = 0) {
  actors::NodeOptions options;
  options.listen.port = port;
  auto node = actors::Node::open(options);
  if (!node)
    FAIL(node.error().text());
  return std::move(*node);
}

EngineOptions with_node(const actors::Node& node) {
  EngineOptions options;
  options.threads = 1;
  options.draft_device = "node://127.0.0.1:" + std::to_string(node.port());
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
      CHECK_FALSE(engine.metrics().draft_left_out);
    }
  }
}

TEST_CASE("a node in this process: rows of q that were cut are those that were drawn from") {
  const auto node = open_node();
  EngineOptions options = with_node(*node);
  options.speculation = SpeculationMode::sync;
  options.draft_top_k = 3;
  Engine engine = open_engine(options);
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 1; accepted < 100; ++seed) {
    Request request = repeatable("def", 64, seed);
    request.verify = VerifyRule::rejection;
    accepted += ask(engine, request).end().speculation.accepted;
    // Every 64th draw is repeated here from the row that came; one that differs ends the draft.
    REQUIRE_FALSE(engine.metrics().draft_left_out);
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
  node = open_node(port);
  ask_until(engine, request, expected, drafted);
}
