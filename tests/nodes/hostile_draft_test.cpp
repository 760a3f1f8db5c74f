// What a draft's node may say, and what becomes of it: it is cut off and asked again, and the
// output is that of plain decoding.
#include "speculation/limits.hpp"
#include "tests/nodes/draft_lies.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/node_checks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;
using messages::DraftedTokens;
using messages::DraftFrom;

namespace {

constexpr int answers_max = 100;

/// Longer than a machine that others use may stand still: where a restart would fail a test.
constexpr auto unhurried = 60s;

EngineOptions with(const LyingNode& node) {
  EngineOptions options;
  options.threads = 1;
  options.draft_devices = {address_of(node)};
  options.faults.restart_pause_max = 20ms;
  options.faults.restarts_forgotten = 1ms;
  options.faults.stall_patience = 2s;
  options.speculation = SpeculationMode::overlap;
  options.lookahead = Lookahead::fork;
  options.window = 3;
  options.log = unheard;
  return options;
}

/// The likeliest token alone is left, and rows of q cross all the same.
Request with_rows() {
  Request request = repeatable("def", 48, 7);
  request.verify = VerifyRule::rejection;
  request.sampling.top_k = 1;
  return request;
}

/// Has the node lie until the engine has ended the connection for it, and not since the rest of a
/// chain did not come.
bool is_cut_off_for(const Lie& lie, LyingNode& node, Engine& engine, const Request& request,
                    const std::vector<TokenId>& expected) {
  for (int times = 0; times < 5; ++times) {
    const auto stalls = engine.metrics().stalls;
    node.begin(lie);
    for (int answers = 0; answers < answers_max && !node.cut_off(); ++answers)
      REQUIRE(ask(engine, request).tokens == expected);
    if (node.cut_off() && engine.metrics().stalls == stalls)
      return true;
  }
  return false;
}

void check_cut_off(const std::vector<NamedLie>& all, const Request& request) {
  const auto honest = open_node();
  LyingNode node(honest->port());
  Engine engine = open_engine(with(node));
  REQUIRE(engine.target().vocabulary == demo_vocabulary);
  const auto expected = without_draft(request);
  ask_until(engine, request, expected, drafted);
  const std::size_t before = peak_memory_bytes();
  for (const NamedLie& each : all) {
    CAPTURE(std::string(each.name));
    const auto restarts = engine.metrics().restarts;
    const int connections = node.connections();
    REQUIRE(is_cut_off_for(each.lie, node, engine, request, expected));
    node.stop();
    ask_until(engine, request, expected, [&](const Answer& answer) {
      return drafted(answer) || engine.metrics().draft_disabled;
    });
    REQUIRE_FALSE(engine.metrics().draft_disabled);
    CHECK(engine.metrics().restarts > restarts);
    CHECK(node.connections() > connections);
  }
  CHECK(peak_memory_bytes() - before < std::size_t(256) << 20);
}

} // namespace

TEST_CASE("a draft's node that lies about windows and forks is cut off, and asked again") {
  check_cut_off(lies_of_drafts(), repeatable("class Stack:\n", 48));
}

TEST_CASE("a draft's node that sends what is no value is cut off, and asked again") {
  check_cut_off(broken_frames(nodes::FrameKind::Drafted), repeatable("class Stack:\n", 48));
}

TEST_CASE("a draft's node that lies about rows of q is cut off, and asked again") {
  check_cut_off(lies_of_rows(), with_rows());
}

TEST_CASE("what nobody goes on with is passed over, whatever a draft's node says of it") {
  const auto honest = open_node();
  LyingNode node(honest->port());
  EngineOptions options = with(node);
  options.faults.stall_patience = unhurried;
  Engine engine = open_engine(options);
  const Request request = repeatable("class Stack:\n", 48);
  const auto expected = without_draft(request);
  for (const NamedLie& each : lies_that_harm_nobody()) {
    CAPTURE(std::string(each.name));
    ask_until(engine, request, expected, drafted);
    const auto restarts = engine.metrics().restarts;
    node.begin(each.lie);
    ask_until(engine, request, expected, [&](const Answer&) { return node.lied(); });
    for (int answers = 0; answers < 3; ++answers)
      REQUIRE(ask(engine, request).tokens == expected);
    node.stop();
    ask_until(engine, request, expected, drafted);
    CHECK(engine.metrics().restarts == restarts);
  }
}

TEST_CASE("rows of q that are none leave the draft out, and change no token") {
  const auto honest = open_node();
  LyingNode node(honest->port());
  Engine engine = open_engine(with(node));
  const Request request = with_rows();
  const auto expected = without_draft(request);
  ask_until(engine, request, expected, drafted);
  node.begin(of_window([](auto& said) { said.q.front().clear(); }, Behind::the_rest));
  ask_until(engine, request, expected,
            [&](const Answer&) { return engine.metrics().draft_disabled; });
}

TEST_CASE("forks that nobody asked for, as long as may be, come true up to the context's end") {
  constexpr int most = speculation::limits::chain_positions / 2;
  const Request request = repeatable("class Stack:\n", 48);
  const auto honest = open_node();
  LyingNode node(honest->port());
  EngineOptions options = with(node);
  options.max_model_len = 48 + 8;
  Engine engine = open_engine(options);
  const auto expected = without_draft(request);
  const int prompt = ask(engine, request).end().usage.prompt_tokens;
  const auto right = [=](int position) {
    const auto at = std::size_t(position - prompt);
    return at < expected.size() ? expected[at] : TokenId(1);
  };
  // The window is wrong, and a fork says how the answer goes on: the honest node, which knows
  // nothing of that fork, then ends the connection.
  node.begin_for_ever(of_chain(
      [=](DraftedTokens& said, const DraftFrom& asked) {
        const int at = length_of(asked);
        if (said.first != at || said.tokens.empty() || asked.fork != 0)
          return false;
        said.tokens.front() = (right(at) + 1) % demo_vocabulary;
        const auto attempt = attempt_of(at, speculation::limits::forks_max);
        said.opened.push_back({attempt, 0, std::uint8_t(most), right(at)});
        messages::DraftedFork& fork = said.forks.emplace_back();
        fork.attempt = attempt;
        for (int position = at + 1; position <= at + most; ++position)
          fork.tokens.push_back(right(position));
        return true;
      },
      Behind::the_rest));
  for (int answers = 0; answers < answers_max && engine.metrics().fork_hits < 20; ++answers)
    REQUIRE(ask(engine, request).tokens == expected);
  CHECK(engine.metrics().fork_hits >= 20);
}

TEST_CASE("what a draft's node says of itself when an engine opens is refused, or does no harm") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const auto of_info = [](auto lie) {
    return of_kind(nodes::FrameKind::DraftOpened, [lie](Frame& said) {
      auto opened = *said.as<messages::DraftOpened>();
      lie(opened.info);
      set(said, opened);
    });
  };
  const std::vector<NamedLie> all{
      {"weights without end", of_info([most](auto& said) { said.weight_bytes = most; })},
      {"more shared than there is", of_info([most](auto& said) { said.shared_bytes = most; })},
      {"no context", of_info([](auto& said) { said.max_model_len = 0; })},
      {"less than no context", of_info([](auto& said) { said.max_model_len = -1; })},
      {"no shards", of_info([](auto& said) { said.shards = 0; })},
  };
  const auto honest = open_node();
  const Request request = repeatable("class Stack:\n", 48);
  const auto expected = without_draft(request);
  for (const std::size_t memory : {std::size_t(0), std::size_t(1) << 30})
    for (const NamedLie& each : all) {
      CAPTURE(std::string(each.name));
      LyingNode node(honest->port());
      node.begin_for_ever(each.lie);
      EngineOptions options = with(node);
      options.memory_bytes = memory;
      auto engine = Engine::open(options);
      CHECK(node.lied());
      if (engine)
        CHECK(ask(*engine, request).tokens == expected);
    }
}
