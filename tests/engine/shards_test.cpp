// A target in shards says what one device says but where rounding decides, and always the same.
#include "tests/engine/world.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr std::array modes{SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap};

std::vector<std::vector<TokenId>> answers(const EngineOptions& options) {
  Engine engine = open_engine(options);
  std::vector<std::vector<TokenId>> all;
  for (const Answer& answer : ask_all(engine, code_requests()))
    all.push_back(answer.tokens);
  return all;
}

EngineOptions in_shards(SpeculationMode mode = SpeculationMode::off) {
  EngineOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.tensor_parallel_size = 2;
  options.speculation = mode;
  return options;
}

/// The demo pair on simulated devices, which compute as cores do.
EngineOptions simulated_demo(int stages, int shards, SpeculationMode mode = SpeculationMode::off) {
  EngineOptions options;
  options.devices.assign(std::size_t(stages * shards), "sim:1ms");
  options.draft_devices = {"sim:100us"};
  options.tensor_parallel_size = shards;
  options.speculation = mode;
  options.virtual_time = true;
  return options;
}

} // namespace

TEST_CASE("two shards on two cores: every mode, batch and window gives the same tokens") {
  const auto expected = answers(in_shards());
  for (const SpeculationMode mode : modes)
    for (const int window : {2, 5}) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(window);
      EngineOptions options = in_shards(mode);
      options.window = window;
      options.max_num_seqs = window;
      options.prefill_chunk = window == 2 ? 7 : 512;
      CHECK(answers(options) == expected);
    }
  EngineOptions threads = in_shards();
  threads.threads = 2;
  CHECK(answers(threads) == expected);
}

TEST_CASE("simulated shards have the tokens of real ones, in stages and not") {
  const auto expected = answers(in_shards());
  for (const SpeculationMode mode : modes) {
    CHECK(answers(simulated_demo(1, 2, mode)) == expected);
    CHECK(answers(simulated_demo(2, 2, mode)) == expected);
  }
}

TEST_CASE("the demo pair's greedy tokens over two shards are those of one device") {
  EngineOptions one;
  one.speculation = SpeculationMode::off;
  const auto whole = answers(one);
  const auto shards = answers(in_shards());
  for (std::size_t i = 0; i < whole.size(); i += 2)
    CHECK(shards[i] == whole[i]);
}

TEST_CASE("a target in shards that dies goes on from committed tokens") {
  const EngineOptions options = simulated_demo(1, 2, SpeculationMode::overlap);
  const auto expected = answers(options);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    check_goes_on(options, seed, expected, [](EngineWorld& world) {
      REQUIRE(world.handles().stages.size() == 1);
      world.kill(world.handles().stages.front());
    });
  }
}

TEST_CASE("an engine says that its target is in shards") {
  const Engine engine = open_engine(in_shards());
  const ModelInfo target = engine.target();
  CHECK(target.device == "cpu:0|cpu:1");
  CHECK(target.shards == 2);
  CHECK(target.stages.empty());
  CHECK(target.layers == 6);
}

TEST_CASE("each device of a target in shards has its part of the weights and pages") {
  EngineOptions one;
  one.drafters = {"none"};
  one.memory_bytes = std::size_t(40) << 20;
  EngineOptions two = in_shards();
  two.drafters = {"none"};
  two.memory_bytes = one.memory_bytes;
  const auto pages = [](const EngineOptions& options) {
    Engine engine = open_engine(options);
    ask(engine, repeatable("import os\n", 2)); // which has them counted
    return engine.metrics().kv_pages_total;
  };
  CHECK(pages(two) > 2 * pages(one));
}

TEST_CASE("a draft out of a target in shards has weights of its own, and changes no token") {
  check_draft_of_parts(in_shards());
}

TEST_CASE("what does not go with shards is refused by name") {
  EngineOptions options = in_shards();
  options.tensor_parallel_size = 3;
  CHECK(refused(options).message.find("tensor_parallel_size is 3, and the target has 2") !=
        std::string::npos);
  options.tensor_parallel_size = 0;
  CHECK(refused(options).message.find("tensor_parallel_size is 0") != std::string::npos);
  options.tensor_parallel_size = 2;
  options.pipeline_parallel_size = 2;
  CHECK(refused(options).message.find("pipeline_parallel_size is 2") != std::string::npos);
  options.pipeline_parallel_size = 1;
  options.devices = {"cpu:0", "sim:1ms"};
  CHECK(refused(options).message.find("cannot have shards of one model") != std::string::npos);
  options.devices = {"sim:1ms", "sim:1ms", "sim:1ms"};
  options.tensor_parallel_size = 3;
  CHECK(refused(options).message.find("has 6 heads, 2 of keys and values") != std::string::npos);
  options = in_shards(SpeculationMode::sync);
  options.drafters = {"eagle3:nowhere"};
  CHECK(refused(options).message.find("and this one is in shards") != std::string::npos);
  options = in_shards();
  options.reserve_device = "cpu";
  CHECK(refused(options).message.find("reserve_device") != std::string::npos);
  options = in_shards();
  options.prefill = Prefill::fast;
  CHECK(refused(options).message.find("no fast path") != std::string::npos);
}
