// Nodes in this process, and what tests of drafts on them ask of an engine.
#pragma once

#include "nodes/node.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

inline std::unique_ptr<nodes::Node> open_node(const nodes::NodeOptions& options = {}) {
  auto node = nodes::Node::open(options);
  if (!node)
    FAIL(node.error().text());
  return std::move(*node);
}
/// Returns the address of a node, or of what stands in its place.
template <class Node>
std::string address_of(const Node& node) {
  return "node://127.0.0.1:" + std::to_string(node.port());
}

inline std::vector<TokenId> without_draft(const Request& request) {
  EngineOptions plain;
  plain.threads = 1;
  plain.speculation = SpeculationMode::off;
  Engine engine = open_engine(plain);
  return ask(engine, request).tokens;
}

/// Asks the same again and again until something is so; each answer must be the same.
inline void ask_until(Engine& engine, const Request& request, const std::vector<TokenId>& expected,
                      const std::function<bool(const Answer&)>& reached) {
  for (;;) {
    const Answer answer = ask(engine, request);
    REQUIRE(answer.tokens == expected);
    if (reached(answer))
      return;
  }
}
inline bool drafted(const Answer& answer) {
  return answer.end().speculation.accepted > 0;
}
/// Every 64th draw is repeated here from the row that came; one that differs ends the draft.
inline void check_cut_rows(EngineOptions options) {
  options.speculation = SpeculationMode::sync;
  options.draft_top_k = 3;
  Engine engine = open_engine(options);
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 1; accepted < 100; ++seed) {
    Request request = repeatable("def", 64, seed);
    request.verify = VerifyRule::rejection;
    accepted += ask(engine, request).end().speculation.accepted;
    REQUIRE_FALSE(engine.metrics().draft_disabled);
  }
}

} // namespace paceline::testing
