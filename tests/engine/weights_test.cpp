// Promises 1 and 2 with weights in the microscaling formats: the demo pair on this machine's cores.
#include "gpu/mx.hpp"
#include "tests/engine/draft_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions quantized(WeightFormat format) {
  EngineOptions options;
  options.weights = options.draft_weights = format;
  options.threads = 2;
  return options;
}

} // namespace

TEST_CASE("with weights of every format: the same tokens in every mode, chunk, page and team") {
  SpeculationStats stats;
  for (const WeightFormat format : gpu::mx_formats) {
    CAPTURE(std::string(to_string(format)));
    EngineOptions options = quantized(format);
    options.speculation = SpeculationMode::off;
    options.threads = 1;
    options.max_num_seqs = 1;
    const auto expected = answers_of(options, both_requests());
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      options = quantized(format);
      options.window = 3;
      CHECK(answers_of(in_mode(options, mode), both_requests(), &stats) == expected);
    }
  }
  CHECK(stats.accepted > 50); // Speculation was at work.
}

TEST_CASE("what is quantized is said, and takes the memory that its format does") {
  EngineOptions options;
  options.drafters.clear();
  const ModelInfo plain = open_engine(options).target();
  CHECK(plain.weights == "bf16");
  CHECK(plain.head_weights == "bf16");
  options.weights = WeightFormat::mxfp4;
  const ModelInfo blocks = open_engine(options).target();
  CHECK(blocks.dtype == "bf16");
  CHECK(blocks.weights == "mxfp4");
  CHECK(blocks.head_weights == "bf16");
  CHECK(blocks.weight_bytes < plain.weight_bytes / 2);
  options.head_weights = WeightFormat::mxfp8;
  const ModelInfo both = open_engine(options).target();
  CHECK(both.head_weights == "mxfp8");
  CHECK(both.weight_bytes > blocks.weight_bytes); // The tied table, and the head of its own.
  CHECK(both.parameters == plain.parameters);
}

TEST_CASE("a head that is quantized serves every mode alike") {
  EngineOptions options = quantized(WeightFormat::mxfp6);
  options.head_weights = WeightFormat::mxfp4;
  options.speculation = SpeculationMode::off;
  const auto expected = answers_of(options, both_requests());
  options.speculation = SpeculationMode::sync;
  CHECK(answers_of(options, both_requests()) == expected);
}

TEST_CASE("formats that quantize nothing are refused by their field's name") {
  for (const auto field :
       {&EngineOptions::weights, &EngineOptions::draft_weights, &EngineOptions::head_weights}) {
    EngineOptions options;
    options.*field = WeightFormat::bf16;
    const auto engine = Engine::open(options);
    REQUIRE_FALSE(engine);
    CHECK(engine.error().code == ErrorCode::invalid_argument);
    CHECK(engine.error().text().find("weights is bf16") != std::string::npos);
  }
  EngineOptions rule = simulated();
  rule.weights = WeightFormat::mxfp6;
  EngineOptions rounding = simulated();
  rounding.activations = Activations::int8;
  for (const EngineOptions& options : {rule, rounding}) {
    const auto engine = Engine::open(options);
    REQUIRE_FALSE(engine);
    CHECK(engine.error().text().find("no weights to quantize") != std::string::npos);
  }
}
