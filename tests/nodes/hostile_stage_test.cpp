// What a stage's node may say, and what becomes of it: it is cut off and asked again, and requests
// go on, or end with an error.
#include "nodes/limits.hpp"
#include "nodes/node.hpp"
#include "tests/nodes/lying_node.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/node_checks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;
using messages::StageDone;
using messages::StageOpened;
using nodes::FrameKind;

namespace {

constexpr int stage_answers_max = 100;

std::unique_ptr<nodes::Node> open_stage_node() {
  nodes::NodeOptions options;
  options.models = {};
  return open_node(options);
}

EngineOptions in_stages_with(const LyingNode& node) {
  EngineOptions options;
  options.threads = 1;
  options.devices = {"cpu", address_of(node)};
  options.faults.restart_pause_max = 20ms;
  options.faults.restarts_forgotten = 1ms;
  options.faults.stage_patience = 2s;
  options.speculation = SpeculationMode::off;
  options.log = unheard;
  return options;
}

Request any_request() {
  return repeatable("class Stack:\n", 32);
}

Lie of_opened(std::function<void(StageOpened&)> lie) {
  return of_kind(FrameKind::StageOpened, [lie = std::move(lie)](Frame& said) {
    auto opened = *said.as<StageOpened>();
    lie(opened);
    set(said, opened);
  });
}

Lie of_done(std::function<void(StageDone&)> lie) {
  return of_kind(FrameKind::StageDone, [lie = std::move(lie)](Frame& said) {
    auto done = *said.as<StageDone>();
    lie(done);
    set(said, done);
  });
}

template <class Value>
Lie also(FrameKind behind, const Value& value) {
  return of_kind(behind, [value](Frame& said) { append(said, value); });
}

Lie filled_with(float value) {
  return of_done([value](StageDone& said) {
    for (std::size_t at = 0; at < said.values.size(); at += sizeof value)
      std::memcpy(said.values.data() + at, &value, sizeof value);
  });
}

std::vector<NamedLie> lies_of_passes() {
  return {
      {"an answer to what is to come", of_done([](auto& said) { ++said.piece; })},
      {"an answer to what was before", of_done([](auto& said) { --said.piece; })},
      {"an answer twice",
       of_kind(FrameKind::StageDone, [](Frame& said) { append(said, *said.as<StageDone>()); })},
      {"an answer to what was not sent", of_kind(FrameKind::StageDone,
                                                 [](Frame& said) {
                                                   auto done = *said.as<StageDone>();
                                                   ++done.piece;
                                                   append(said, done);
                                                 })},
      {"a number more than the rows have", of_done([](auto& said) { said.values += "1234"; })},
      {"a number less", of_done([](auto& said) { said.values.resize(said.values.size() - 4); })},
      {"half a number less", of_done([](auto& said) { said.values.pop_back(); })},
      {"no rows", of_done([](auto& said) { said.values.clear(); })},
      {"a megabyte of rows", of_done([](auto& said) { said.values.resize(1 << 20); })},
      {"it is open, once more", also(FrameKind::StageDone, StageOpened{{}, 1, 1, 1})},
      {"what is said of drafts", also(FrameKind::StageDone, messages::Drafted{})},
      {"what an engine says", also(FrameKind::StageDone, messages::Ping{})},
      {"a refusal in the middle",
       also(FrameKind::StageDone,
            messages::Refused{{ErrorCode::unavailable, "\x1b[2Jno\nmore", ""}, false})},
  };
}

/// Told when the engine asks for the stage again.
std::vector<NamedLie> lies_of_opening() {
  constexpr int most = nodes::limits::stage_piece_rows_max;
  return {
      {"pieces of no rows", of_opened([](auto& said) { said.piece_rows = 0; })},
      {"pieces of less than that", of_opened([](auto& said) { said.piece_rows = -1; })},
      {"pieces that are too large", of_opened([=](auto& said) { said.piece_rows = most + 1; })},
      {"pieces without end", of_opened([](auto& said) { said.piece_rows = 0x7fffffff; })},
      {"an answer before anything was asked",
       also(FrameKind::StageOpened, StageDone{0, std::string(1536, 'x'), {}})},
      {"it is open twice",
       of_kind(FrameKind::StageOpened, [](Frame& said) { append(said, *said.as<StageOpened>()); })},
  };
}

/// Checks that each lie ends its connection, and what was asked for goes on with the next one.
/// again: the stage is asked for anew.
void check_cut_off(const std::vector<NamedLie>& all, bool again) {
  const auto honest = open_stage_node();
  LyingNode node(honest->port());
  Engine engine = open_engine(in_stages_with(node));
  const Request request = any_request();
  const auto expected = without_draft(request);
  REQUIRE(ask(engine, request).tokens == expected);
  const std::size_t before = peak_memory_bytes();
  for (const NamedLie& each : all) {
    CAPTURE(std::string(each.name));
    const auto restarts = engine.metrics().restarts;
    node.begin(each.lie);
    if (again) {
      node.cut();
      REQUIRE(node.await_cut_off());
    }
    for (int answers = 0; answers < stage_answers_max && !node.cut_off(); ++answers) {
      const Answer answer = ask(engine, request);
      REQUIRE_FALSE(answer.end().error);
      REQUIRE(answer.tokens == expected);
    }
    REQUIRE(node.cut_off());
    node.stop();
    CHECK(ask(engine, request).tokens == expected);
    CHECK(engine.metrics().restarts > restarts);
  }
  CHECK(peak_memory_bytes() - before < std::size_t(256) << 20);
}

} // namespace

TEST_CASE(
    "a stage's node that lies about passes is cut off, and requests go on with an honest one") {
  check_cut_off(lies_of_passes(), false);
}

TEST_CASE("a stage's node that sends what is no value is cut off, and requests go on") {
  check_cut_off(broken_frames(FrameKind::StageDone), false);
}

TEST_CASE("a stage's node that lies when it comes back is cut off, and asked again") {
  check_cut_off(lies_of_opening(), true);
}

TEST_CASE("a stage's node whose rows are no numbers fails requests, and the engine goes on") {
  const auto honest = open_stage_node();
  LyingNode node(honest->port());
  EngineOptions options = in_stages_with(node);
  options.faults.stage_patience = 60s; // a restart would fail the test
  Engine engine = open_engine(options);
  const auto expected = without_draft(any_request());
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    CAPTURE(value);
    node.begin(filled_with(value));
    CHECK(ask(engine, any_request()).end().error);
    CHECK(node.lied());
    CHECK_FALSE(node.cut_off());
    node.stop();
    CHECK(ask(engine, any_request()).tokens == expected);
  }
  CHECK(engine.metrics().restarts == 0);
}

TEST_CASE("a stage's node that lies for ever: requests end with an error that names it") {
  const auto honest = open_stage_node();
  LyingNode node(honest->port());
  Engine engine = open_engine(in_stages_with(node));
  const auto expected = without_draft(any_request());
  for (const NamedLie& each : {lies_of_passes().front(), lies_of_opening().front()}) {
    CAPTURE(std::string(each.name));
    node.begin_for_ever(each.lie);
    node.cut();
    const Answer failed = ask(engine, any_request());
    REQUIRE(failed.end().error);
    const std::string why = failed.end().error->text();
    CAPTURE(why);
    CHECK(why.find(address_of(node)) != std::string::npos);
    CHECK(why.find("what was said cannot be") != std::string::npos);
    node.stop();
    Answer answer = ask(engine, any_request()); // it may still be looked for
    while (answer.end().error)
      answer = ask(engine, any_request());
    CHECK(answer.tokens == expected);
  }
}

TEST_CASE("a stage's node that lies is left for the reserve") {
  const auto honest = open_stage_node();
  const auto reserve = open_stage_node();
  LyingNode node(honest->port());
  EngineOptions options = in_stages_with(node);
  options.reserve_device = address_of(*reserve);
  Engine engine = open_engine(options);
  const auto expected = without_draft(any_request());
  node.begin_for_ever(lies_of_passes().front().lie);
  const Answer answer = ask(engine, any_request());
  CHECK_FALSE(answer.end().error);
  CHECK(answer.tokens == expected);
  CHECK(node.await_cut_off());
}

TEST_CASE("what a stage's node says of itself when an engine opens is refused, or does no harm") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::pair<NamedLie, bool>> all{
      {{"no shards", of_opened([](auto& said) { said.info.shards = 0; })}, false},
      {{"many shards", of_opened([](auto& said) { said.info.shards = 1 << 30; })}, false},
      {{"fewer shards than none", of_opened([](auto& said) { said.info.shards = -1; })}, false},
      {{"other layers", of_opened([](auto& said) { said.info.layers = -1; })}, false},
      {{"pages of nothing", of_opened([](auto& said) { said.page_bytes = 0; })}, false},
      {{"pages without end", of_opened([most](auto& said) { said.page_bytes = most; })}, false},
      {{"no memory", of_opened([](auto& said) { said.kv_bytes = 0; })}, false},
      {{"a byte of memory", of_opened([](auto& said) { said.kv_bytes = 1; })}, false},
      {{"memory without end", of_opened([most](auto& said) { said.kv_bytes = most; })}, true},
      {{"2^62 bytes", of_opened([](auto& said) { said.kv_bytes = std::uint64_t(1) << 62; })}, true},
      {{"weights without end", of_opened([most](auto& said) { said.info.weight_bytes = most; })},
       true},
      {{"a name of a megabyte",
        of_opened([](auto& said) { said.info.name = std::string(1 << 20, '\n'); })},
       false},
      {{"no context", of_opened([](auto& said) { said.info.max_model_len = -1; })}, true},
  };
  const auto honest = open_stage_node();
  const auto expected = without_draft(any_request());
  for (const auto& [lie, opens] : all) {
    CAPTURE(std::string(lie.name));
    LyingNode node(honest->port());
    node.begin_for_ever(lie.lie);
    const EngineOptions options = in_stages_with(node);
    auto engine = Engine::open(options);
    CHECK(node.lied());
    CHECK(bool(engine) == opens);
    if (!engine)
      continue;
    CHECK(ask(*engine, any_request()).tokens == expected);
    CHECK(engine->metrics().full_length_requests == options.max_num_seqs); // room as ever
  }
}
