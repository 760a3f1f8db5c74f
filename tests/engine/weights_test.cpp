// Promises 1 and 2 with weights in the microscaling formats: the demo pair on this machine's cores.
#include "gpu/mx.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

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

/// Greedy, and drawn by coupling.
std::vector<std::vector<TokenId>> answers(const EngineOptions& options,
                                          std::uint64_t* accepted = nullptr) {
  Engine engine = open_engine(options);
  const std::vector<Answer> all =
      ask_all(engine, {repeatable("import os\nimport sys\n\ndef main():\n", 20, std::nullopt),
                       repeatable("class Stack:\n    def push(", 20, 7)});
  std::vector<std::vector<TokenId>> tokens;
  for (const Answer& answer : all) {
    tokens.push_back(answer.tokens);
    if (accepted)
      *accepted += answer.end().speculation.accepted;
  }
  return tokens;
}

} // namespace

TEST_CASE("with weights of every format: the same tokens in every mode, chunk, page and team") {
  std::uint64_t accepted = 0;
  for (const WeightFormat format : gpu::mx_formats) {
    CAPTURE(std::string(to_string(format)));
    EngineOptions options = quantized(format);
    options.speculation = SpeculationMode::off;
    options.threads = 1;
    options.max_num_seqs = 1;
    const auto expected = answers(options);
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      options = quantized(format);
      options.speculation = mode;
      options.window = mode == SpeculationMode::sync ? 6 : 3;
      options.prefill_chunk = mode == SpeculationMode::sync ? 5 : 512;
      options.page_tokens = mode == SpeculationMode::sync ? 2 : 16;
      CHECK(answers(options, &accepted) == expected);
    }
  }
  CHECK(accepted > 50); // Speculation was at work.
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
  const auto expected = answers(options);
  options.speculation = SpeculationMode::sync;
  CHECK(answers(options) == expected);
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
