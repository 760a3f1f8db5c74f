// A draft model in stages or in shards: it drafts what it drafts on one device, changes no token,
// and dies like any draft.
#include "tests/engine/world.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::array drafting_modes{SpeculationMode::sync, SpeculationMode::overlap,
                                    SpeculationMode::automatic};

/// The demo pair. shards: 1: a draft on several devices is in stages.
EngineOptions pair_on(std::vector<std::string> draft_devices, int shards = 1) {
  EngineOptions options;
  options.devices = {"sim:2ms"};
  options.draft_devices = std::move(draft_devices);
  options.draft_tensor_parallel_size = shards;
  options.virtual_time = true;
  return options;
}

struct Drafted {
  std::vector<std::vector<TokenId>> tokens;
  Metrics metrics;
};

Drafted run(EngineOptions options, SpeculationMode mode) {
  options.speculation = mode;
  Engine engine = open_engine(options);
  Drafted run;
  for (const Answer& answer : ask_all(engine, code_requests()))
    run.tokens.push_back(answer.tokens);
  engine.run_until([] { return false; }, engine.now() + 1s); // Steps under way.
  run.metrics = engine.metrics();
  return run;
}

const std::vector<std::string> one{"sim:200us"};
const std::vector<std::string> two{"sim:200us/2", "sim:200us/2"};

} // namespace

TEST_CASE("a draft in stages or shards changes no token, in any mode, window or batch") {
  const auto expected = run(pair_on(one), SpeculationMode::off).tokens;
  for (const int shards : {1, 2})
    for (const SpeculationMode mode : drafting_modes)
      for (const int window : {1, 3, 6}) {
        CAPTURE(shards);
        CAPTURE(window);
        CAPTURE(std::string(to_string(mode)));
        EngineOptions options = pair_on(two, shards);
        options.window = window;
        options.page_tokens = window == 3 ? 6 : 16;
        options.max_num_seqs = window;
        const Drafted divided = run(options, mode);
        CHECK(divided.tokens == expected);
        CHECK(divided.metrics.accepted > 0);
        CHECK(divided.metrics.kv_pages_quarantined == 0);
      }
}

TEST_CASE("a draft in stages drafts the tokens of one device") {
  EngineOptions whole = pair_on({"sim:200us"});
  whole.window = 4;
  EngineOptions divided = pair_on(two);
  divided.window = 4;
  const Metrics expected = run(whole, SpeculationMode::sync).metrics;
  const Metrics metrics = run(divided, SpeculationMode::sync).metrics;
  CHECK(metrics.accepted == expected.accepted);
  CHECK(metrics.judged == expected.judged);
}

TEST_CASE("a draft's stages take their times together, shards the longest, and each hop its own") {
  const auto time_of = [](const std::vector<std::string>& devices, int shards) {
    EngineOptions options = pair_on(devices, shards);
    options.speculation = SpeculationMode::sync;
    options.window = 4;
    Engine engine = open_engine(options);
    ask(engine, repeatable("def fibonacci(n):", 48));
    return engine.now();
  };
  const auto whole = time_of({"sim:400us"}, 1);
  CHECK(time_of({"sim:400us/2", "sim:400us/2"}, 1) == whole);
  CHECK(time_of({"sim:400us/2", "sim:400us/2+100us/hop"}, 1) > whole);
  const auto shared = time_of({"sim:400us/2", "sim:400us/2"}, 2);
  CHECK(shared < whole);
  CHECK(time_of({"sim:400us/2", "sim:400us/2+200us/hop"}, 2) == whole);
}

TEST_CASE("a draft in parts that dies is started again, and no token is lost") {
  const auto expected = run(pair_on(one), SpeculationMode::off).tokens;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    EngineOptions options = pair_on(two, 1 + int(seed % 2));
    options.speculation = drafting_modes[seed % drafting_modes.size()];
    check_goes_on(options, seed, expected, [](EngineWorld& world) {
      REQUIRE(world.handles().draft);
      world.kill(world.handles().draft);
    });
  }
}

TEST_CASE("a draft in parts on cores drafts beside its target, by every rule") {
  const auto expected = run(pair_on(one), SpeculationMode::off).tokens;
  for (const int shards : {1, 2}) {
    EngineOptions options;
    options.draft_devices = {"cpu:0", "cpu:1"};
    options.draft_tensor_parallel_size = shards;
    options.speculation = SpeculationMode::overlap;
    Engine engine = open_engine(options);
    std::vector<std::vector<TokenId>> tokens;
    for (const Answer& answer : ask_all(engine, code_requests()))
      tokens.push_back(answer.tokens);
    CHECK(tokens == expected);
    Request sampled = repeatable("def main():\n", 24, 3);
    sampled.verify = VerifyRule::rejection;
    CHECK(ask(engine, sampled).tokens.size() == 24);
    const ModelInfo draft = engine.draft_model().value();
    CHECK(draft.device == (shards == 1 ? "cpu:0+cpu:1" : "cpu:0|cpu:1"));
    CHECK(draft.layers == 2);
    CHECK(draft.shards == shards);
    CHECK(draft.stages.size() == (shards == 1 ? 2 : 0));
    CHECK(engine.metrics().accepted > 0);
  }
}

TEST_CASE("what does not go with a draft on several devices is refused by name") {
  const auto message = [](const EngineOptions& options) { return refused(options).message; };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(message(pair_on(two, 3)), "draft_tensor_parallel_size is 3, and the draft has 2"));
  CHECK(has(message(pair_on({}, 2)), "draft_devices is empty"));
  CHECK(has(message(pair_on({"cpu:0", "cpu:0"})), "draft_devices has cpu:0 and cpu:0"));
  CHECK(has(message(pair_on({"sim:1ms", "cpu:0"})), "cannot have stages of one draft"));
  CHECK(has(message(pair_on({"sim:1ms", "sim:1ms", "sim:1ms"})), "has 2 layers"));
  CHECK(has(message(pair_on({"sim:1ms", "node://127.0.0.1:7000"})), "one is a node's"));
  CHECK(has(message(pair_on({"sim:1ms", "sim:1ms", "sim:1ms", "sim:1ms"}, 2)),
            "draft_tensor_parallel_size is 2 of 4 devices"));
  EngineOptions options = pair_on(two);
  options.draft_pipeline_parallel_size = 3;
  CHECK(has(message(options), "draft_pipeline_parallel_size is 3"));
  for (const char* draft : {"suffix", "self:mxfp4", "eagle3:nowhere"}) {
    CAPTURE(draft);
    options = pair_on(two);
    options.drafters = {draft};
    CHECK(has(message(options), "draft_devices has 2 devices"));
  }
}
