// A stage of a target on a node, with the node in the same process: real sockets on loopback.
#include "tests/network/relay.hpp"
#include "tests/support/node_checks.hpp"
#include "tests/support/says.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<nodes::Node> open_stage_node(std::uint16_t port = 0,
                                             std::vector<std::string> targets = {"demo"}) {
  nodes::NodeOptions options;
  options.listen.port = port;
  options.devices = {"cpu:1"};
  options.models = {};
  options.targets = std::move(targets);
  return open_node(options);
}

/// The first layers here, the others on the node, and the head here again.
EngineOptions in_two(const nodes::Node& node) {
  EngineOptions options;
  options.devices = {"cpu:0", address_of(node)};
  options.faults.heartbeat = 300ms;
  options.faults.restart_pause_max = 100ms;
  return options;
}

constexpr std::size_t scored = 2; // a prompt of many tokens

/// Greedy and `coupled`; one prompt is several pieces long, and one is scored.
std::vector<Request> requests() {
  std::vector<Request> all = code_requests();
  std::string text;
  for (int line = 0; line < 60; ++line)
    text += "    value_" + std::to_string(line) + " = " + std::to_string(line * line) + "\n";
  all.push_back(repeatable(text, 8));
  all[scored].prompt_logprobs = true;
  return all;
}

struct Expected {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<float> scores; ///< Of the prompt that is scored.
};

Expected expected_of(const std::vector<Answer>& answers) {
  Expected all;
  for (const Answer& answer : answers)
    all.tokens.push_back(answer.tokens);
  for (const auto& part : answers[scored].prompt)
    for (const auto& entry : part.logprobs)
      all.scores.push_back(entry.logprob);
  REQUIRE(all.scores.size() > 8);
  return all;
}

Expected on_one_device(EngineOptions options = {}) {
  options.speculation = SpeculationMode::off;
  options.threads = 1;
  Engine engine = open_engine(options);
  return expected_of(ask_all(engine, requests()));
}

} // namespace

TEST_CASE("a stage on a node: the bits of one device, in every mode and batch") {
  const auto node = open_stage_node();
  const Expected expected = on_one_device();
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = in_two(*node);
    options.speculation = mode;
    options.prefill_chunk = options.row_budget = 700; // the long prompt is several pieces
    options.faults.heartbeat = 20s; // however busy the machine is, nothing is lost here
    Engine engine = open_engine(options);
    const Expected got = expected_of(ask_all(engine, requests()));
    CHECK(got.tokens == expected.tokens);
    CHECK(got.scores == expected.scores);
    const ModelInfo target = engine.target();
    REQUIRE(target.stages.size() == 3);
    CHECK(target.stages[1].device == address_of(*node));
    CHECK(target.stages[0].layers + target.stages[1].layers == 6);
    CHECK(target.stages[2].layers == 0);
    CHECK(engine.metrics().restarts == 0);
  }
}

TEST_CASE(
    "a stage on a node rounds weights, rows, keys and values as the engine does, bit for bit") {
  EngineOptions rounded;
  rounded.weights = WeightFormat::mxfp4;
  rounded.activations = Activations::int8;
  rounded.kv_cache_dtype = KvCacheDtype::int8;
  const Expected expected = on_one_device(rounded);
  CHECK(expected.scores != on_one_device().scores);
  const auto node = open_stage_node();
  EngineOptions options = in_two(*node);
  options.weights = rounded.weights;
  options.activations = rounded.activations;
  options.kv_cache_dtype = rounded.kv_cache_dtype;
  options.faults.heartbeat = 20s; // however busy the machine is, nothing is lost here
  Engine engine = open_engine(options);
  const Expected got = expected_of(ask_all(engine, requests()));
  CHECK(got.tokens == expected.tokens);
  CHECK(got.scores == expected.scores);
  CHECK(engine.target().activations == "int8");
  CHECK(engine.target().kv_cache_dtype == "int8");
}

TEST_CASE("a stage on a node between stages here, and two behind each other: the same bits") {
  const auto node = open_stage_node();
  const auto other = open_stage_node();
  const Expected expected = on_one_device();
  const std::vector<std::vector<std::string>> shapes{
      {"cpu:0", address_of(*node), "cpu:1"}, {"cpu:0", address_of(*node), address_of(*other)}};
  for (const auto& devices : shapes) {
    EngineOptions options = in_two(*node);
    options.devices = devices;
    options.stage_layers = {2, 1, 3};
    options.speculation = SpeculationMode::overlap;
    options.prefill_chunk = 50;
    Engine engine = open_engine(options);
    const Expected got = expected_of(ask_all(engine, requests()));
    CHECK(got.tokens == expected.tokens);
    CHECK(got.scores == expected.scores);
  }
}

TEST_CASE("rows that cross in bf16: a numeric setting of its own, alike in every mode and batch") {
  const auto node = open_stage_node();
  const auto reserve = open_stage_node();
  const Expected exact = on_one_device();
  std::optional<Expected> rounded;
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = in_two(*node);
    options.node_rows = NumberFormat::bf16;
    options.speculation = mode;
    options.prefill_chunk = mode == SpeculationMode::off ? 700 : 50;
    options.devices[1] = address_of(mode == SpeculationMode::sync ? *reserve : *node);
    Engine engine = open_engine(options);
    const Expected got = expected_of(ask_all(engine, requests()));
    if (!rounded)
      rounded = got;
    CHECK(got.tokens == rounded->tokens);
    CHECK(got.scores == rounded->scores);
    CHECK(engine.target().stages[1].crossing_rows == "bf16");
    CHECK(engine.target().stages[0].crossing_rows.empty());
  }
  CHECK(rounded->scores != exact.scores);
  for (std::size_t i = 0; i < exact.scores.size(); ++i)
    CHECK(std::abs(rounded->scores[i] - exact.scores[i]) < 0.1f);
}

TEST_CASE("a stage on a node: windows are in flight through it") {
  const auto node = open_stage_node();
  EngineOptions options = in_two(*node);
  options.speculation = SpeculationMode::overlap;
  options.lookahead = Lookahead::chain;
  options.window = 2;
  const Request request = repeatable("class Stack:\n", 200);
  const auto expected = without_draft(request);
  Engine engine = open_engine(options);
  CHECK(ask(engine, request).tokens == expected);
  CHECK(engine.metrics().pre_enqueued_steps > 0); // entered behind a window that was not judged yet
}

TEST_CASE("a stage's node that is gone: requests wait, and go on when it is back") {
  auto node = open_stage_node();
  const std::uint16_t port = node->port();
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::overlap}) {
    EngineOptions options = in_two(*node);
    options.speculation = mode;
    Engine engine = open_engine(options);
    const Request request = repeatable("class Stack:\n", 200, 7);
    const auto expected = without_draft(request);
    Stream stream = submit(engine, request);
    REQUIRE(stream.next());
    node = nullptr;
    Stream meanwhile = submit(engine, request);
    std::this_thread::sleep_for(600ms);
    node = open_stage_node(port);
    const Answer rest = read_all(stream);
    CHECK_FALSE(rest.end().error);
    CHECK(rest.tokens.size() < expected.size()); // it went on, and did not begin again
    CHECK(std::equal(rest.tokens.rbegin(), rest.tokens.rend(), expected.rbegin()));
    CHECK(read_all(meanwhile).tokens == expected);
    CHECK(engine.metrics().restarts > 0);
    CHECK(engine.metrics().stalls == 0);
  }
}

TEST_CASE("a node that comes back has no pages of before: no prompt goes on from them") {
  auto node = open_stage_node();
  const std::uint16_t port = node->port();
  std::string text = "import os\nimport sys\n\n";
  for (int line = 0; line < 20; ++line)
    text += "def function_" + std::to_string(line) + "(x):\n    return x + 1\n\n";
  const Request request = repeatable(text, 24);
  const auto expected = without_draft(request);
  Engine engine = open_engine(in_two(*node));
  CHECK(ask(engine, request).tokens == expected);
  const Answer again = ask(engine, request);
  CHECK(again.tokens == expected);
  CHECK(again.end().usage.cached_tokens > 0); // it begins with pages that are there
  node = nullptr;
  node = open_stage_node(port);
  CHECK(ask(engine, request).tokens == expected);
}

TEST_CASE("a wire on which rows of a prompt take longer than a heartbeat is no node that is gone") {
  const auto node = open_stage_node();
  const Relay slow({.to_port = node->port(), .bytes_per_second = 2e5}); // 393 KB in a piece
  EngineOptions options = in_two(*node);
  options.faults.heartbeat = 1500ms; // Bytes come more often, however busy the machine.
  options.devices[1] = "node://127.0.0.1:" + std::to_string(slow.port());
  options.prefill_chunk = options.row_budget = 700;
  const Request request = requests().back();
  const auto expected = without_draft(request);
  Engine engine = open_engine(options);
  CHECK(ask(engine, request).tokens == expected);
  CHECK(engine.metrics().restarts == 0);
}

TEST_CASE("requests wait for a stage's node as long as they are told to, and fail by name") {
  auto node = open_stage_node();
  const std::uint16_t port = node->port();
  EngineOptions options = in_two(*node);
  options.faults.stage_patience = 300ms;
  Engine engine = open_engine(options);
  const Request request = repeatable("def", 24);
  const auto expected = without_draft(request);
  CHECK(ask(engine, request).tokens == expected);
  node = nullptr;
  const auto begun = std::chrono::steady_clock::now();
  const Answer failed = ask(engine, request);
  CHECK(std::chrono::steady_clock::now() - begun < 20s);
  REQUIRE(failed.end().error);
  CHECK(failed.end().error->code == ErrorCode::unavailable);
  CHECK(contains(failed.end().error->message, options.devices[1]));
  CHECK(contains(failed.end().error->text(), "start paceline node there again"));
  node = open_stage_node(port);
  Answer answer = ask(engine, request); // it may still be looked for
  while (answer.end().error)
    answer = ask(engine, request);
  CHECK(answer.tokens == expected);
}

TEST_CASE("a stage's reserve takes over, and the stage comes back when that is gone") {
  auto node = open_stage_node();
  const std::uint16_t port = node->port();
  auto reserve = open_stage_node();
  EngineOptions options = in_two(*node);
  options.reserve_device = address_of(*reserve);
  Engine engine = open_engine(options);
  const Request request = repeatable("class Stack:\n", 200, 7);
  const auto expected = without_draft(request);
  Stream stream = submit(engine, request);
  REQUIRE(stream.next());
  node = nullptr;
  const Answer rest = read_all(stream);
  CHECK_FALSE(rest.end().error);
  CHECK(std::equal(rest.tokens.rbegin(), rest.tokens.rend(), expected.rbegin()));
  CHECK(ask(engine, request).tokens == expected);
  node = open_stage_node(port);
  reserve = nullptr;
  CHECK(ask(engine, request).tokens == expected);
}

TEST_CASE("a node with other weights under the same names is refused by name") {
  const TemporaryFolder folder;
  std::filesystem::copy(PACELINE_DEMO_MODELS "/target", folder.path(),
                        std::filesystem::copy_options::recursive);
  const std::string weights = folder.path() + "/model.safetensors";
  const auto size = std::filesystem::file_size(weights);
  {
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(size / 2));
    file << std::string(size / 4, '\x11'); // a layer or two, trained otherwise
  }
  const auto node = open_stage_node(0, {folder.path()});
  CHECK(contains(refused(in_two(*node)).text(), "other weights under the same names"));
}

TEST_CASE("a node that lacks the target is sent it, and has it when it comes back") {
  const TemporaryFolder cache;
  nodes::NodeOptions options;
  options.devices = {"cpu:1"};
  options.models = options.targets = {};
  options.accept_models_bytes = 1 << 30;
  options.model_cache = cache.path();
  const Request request = repeatable("import os\n", 24);
  const auto expected = without_draft(request);
  int sent = 0;
  for (int time = 0; time < 2; ++time) {
    const auto node = open_node(options);
    EngineOptions engine_options = in_two(*node);
    engine_options.progress = [&](const std::string& what, double) {
      sent += contains(what, "sending demo to ");
    };
    Engine engine = open_engine(engine_options);
    CHECK(ask(engine, request).tokens == expected);
    CHECK((sent > 0) == (time == 0));
    sent = 0;
  }
}

TEST_CASE("what does not go with stages on nodes is refused by name") {
  const auto node = open_stage_node();
  const std::string there = address_of(*node);
  EngineOptions options = in_two(*node);
  options.devices = {there, "cpu:0"};
  CHECK(contains(refused(options).text(), "EngineOptions::devices begins with " + there));
  options = in_two(*node);
  options.devices = {"cpu:0", "cpu:1", there, there};
  options.tensor_parallel_size = 2;
  CHECK(contains(refused(options).text(), "EngineOptions::tensor_parallel_size is 2"));
  options = in_two(*node);
  options.reserve_device = "cpu";
  CHECK(contains(refused(options).text(), "give the reserve as a node, too"));
  options.reserve_device = there;
  CHECK(contains(refused(options).text(), "where a stage is"));
  options.devices = {"cpu:0"};
  CHECK(contains(refused(options).text(), "no stage of the target is on a node"));
  options = in_two(*node);
  options.devices[1] += "/cpu:7";
  CHECK(contains(refused(options).text(), "the node has no device cpu:7"));
  options.devices[1] = "node://127.0.0.1:1";
  CHECK(refused(options).code == ErrorCode::unavailable);
  options = in_two(*node);
  options.speculation = SpeculationMode::sync;
  options.tree_rows = 8;
  CHECK(contains(refused(options).text(), "EngineOptions::tree_rows is 8"));
  options = in_two(*node);
  options.node_rows = NumberFormat::f16;
  CHECK(contains(refused(options).text(), "EngineOptions::node_rows"));
  options = in_two(*node);
  options.target = "scripted:vocabulary=32";
  CHECK(contains(refused(options).text(), "a rule has no layers"));
  const auto without = open_stage_node(0, {});
  CHECK(contains(refused(in_two(*without)).text(), "start it with --target"));
}
