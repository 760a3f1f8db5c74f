// A draft out of the target itself, quantized: promises 1, 2 and 4 on the demo target.
#include "tests/engine/draft_checks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions self_drafting(const std::string& format) {
  EngineOptions options;
  options.drafters = {"self:" + format};
  options.threads = 2;
  return options;
}

/// Returns the options with simulated devices, whose time a test holds in its hand.
EngineOptions simulated_self(const std::string& format) {
  EngineOptions options = self_drafting(format);
  options.devices = {"sim:10ms+0.1ms/row"};
  options.draft_devices = {"sim:3ms+0.1ms/row"};
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(16) << 20;
  return options;
}

} // namespace

TEST_CASE("drafts of the target itself change no token, whatever their format and the mode") {
  const auto expected = plain_answers_of({}, both_requests());
  for (const char* format : {"mxfp8", "mxfp6", "mxfp4", "mxint8"}) {
    CAPTURE(std::string(format));
    SpeculationStats stats;
    for (const SpeculationMode mode :
         {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
      EngineOptions options = self_drafting(format);
      options.speculation = mode;
      CHECK(answers_of(options, both_requests(), &stats) == expected);
    }
    CHECK(stats.acceptance_rate() > 0.75); // The built-in draft has about 0.6.
  }
}

TEST_CASE("drafts of the target itself serve a target that is quantized, and a head that is") {
  EngineOptions options = self_drafting("mxfp4");
  options.weights = WeightFormat::mxfp8;
  options.head_weights = WeightFormat::mxfp6;
  options.speculation = SpeculationMode::sync;
  SpeculationStats stats;
  CHECK(answers_of(options, both_requests(), &stats) == plain_answers_of(options, both_requests()));
  CHECK(stats.acceptance_rate() > 0.6);
}

TEST_CASE("a draft of the target itself says what it is, and has memory for its blocks alone") {
  const Engine engine = open_engine(self_drafting("mxfp4"));
  const ModelInfo target = engine.target();
  const ModelInfo draft = engine.draft_model().value();
  CHECK(draft.name == "self:mxfp4");
  CHECK(draft.weights == "mxfp4");
  CHECK(draft.head_weights == "bf16");
  CHECK(draft.parameters == target.parameters);
  CHECK(draft.max_model_len == target.max_model_len);
  CHECK(draft.device == target.device);
  CHECK(target.shared_bytes == 0);
  const std::size_t blocks = target.weight_bytes - draft.shared_bytes;
  const std::size_t own = draft.weight_bytes - draft.shared_bytes;
  CHECK(double(blocks) / double(own) == doctest::Approx(3.76).epsilon(0.01));
}

TEST_CASE("a draft of the target itself may have a device of its own") {
  const auto expected = plain_answers_of({}, both_requests());
  for (const char* device : {"cpu:0", "sim:1us"}) {
    CAPTURE(std::string(device));
    EngineOptions options = self_drafting("mxfp6");
    options.draft_devices = {device};
    options.speculation = SpeculationMode::sync;
    CHECK(answers_of(options, both_requests()) == expected);
    CHECK(open_engine(options).draft_model()->device == device);
  }
}

TEST_CASE("killed again and again, a draft of the target itself loses no token, and is disabled") {
  check_survives_kills(simulated_self("mxfp4"), both_requests(), false, 20);
}

TEST_CASE("a draft of the target itself stays where the target leaves") {
  EngineOptions options = simulated_self("mxfp4");
  options.speculation = SpeculationMode::sync;
  options.reserve_device = "sim:5ms";
  const auto expected = plain_answers_of({}, both_requests());
  EngineWorld world(options);
  const auto coupled = world.submit(both_requests()[1]);
  REQUIRE(world.run_until([&] { return coupled->answer.tokens.size() >= 4; }));
  messages::tell(world.handles().supervisor, scheduling::MoveTarget{});
  REQUIRE(world.run_until_ended({coupled}));
  CHECK(coupled->answer.tokens == expected[1]);
  const auto greedy = world.submit(both_requests()[0]);
  REQUIRE(world.run_until_ended({greedy}));
  CHECK(greedy->answer.tokens == expected[0]);
  CHECK(greedy->answer.end().speculation.accepted > 0);
}

TEST_CASE("formats that make no draft of the target are refused, and what to do is said") {
  check_refused(self_drafting("mxfp5"), {"EngineOptions::drafters = self:mxfp5", "mxfp8-e5m2"});
  check_refused(self_drafting(""), {"self:", "mxfp4"});
  check_refused(self_drafting("bf16"), {"self:bf16", "mxfp4"});
  EngineOptions same = self_drafting("mxfp6");
  same.weights = WeightFormat::mxfp6;
  check_refused(same, {"target's weights are mxfp6"});
  EngineOptions twice = self_drafting("mxfp6");
  twice.draft_weights = WeightFormat::mxfp4;
  check_refused(twice, {"EngineOptions::draft_weights = mxfp4"});
  EngineOptions rule = simulated();
  rule.drafters = {"self:mxfp4"};
  const auto engine = Engine::open(rule);
  REQUIRE_FALSE(engine);
  CHECK(engine.error().text().find("no weights to quantize") != std::string::npos);
}
