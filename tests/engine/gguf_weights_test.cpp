// Promises 1 and 2 with weights that are blocks of a GGUF file: the demo target, on this machine's
// cores.
#include "tests/engine/draft_checks.hpp"
#include "tests/models/quantized_gguf.hpp"
#include "tests/support/files.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using models::test::quantized_demo;

namespace {

EngineOptions options_for(const std::string& gguf) {
  EngineOptions options;
  options.target = gguf;
  options.drafters = {"self:mxfp4"};
  options.threads = 2;
  return options;
}

std::vector<Request> short_requests() {
  return {repeatable("import os", 20), repeatable("class Stack:", 20, 7)};
}

} // namespace

TEST_CASE("with a GGUF's blocks: the same tokens in every mode, chunk, page, batch and team") {
  const TemporaryFolder folder;
  const std::string gguf = quantized_demo(folder, "target");
  EngineOptions options = options_for(gguf);
  options.threads = 1;
  options.max_num_seqs = 1;
  const auto expected = plain_answers_of(options, short_requests());
  SpeculationStats stats;
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    options = options_for(gguf);
    options.window = 3;
    CHECK(answers_of(in_mode(options, mode), short_requests(), &stats) == expected);
  }
  CHECK(stats.accepted > 0); // Speculation was at work.
}

TEST_CASE("a GGUF's blocks take the memory that they take in their file") {
  const TemporaryFolder folder;
  EngineOptions options = options_for(quantized_demo(folder, "target"));
  options.drafters.clear();
  const ModelInfo blocks = open_engine(options).target();
  CHECK(blocks.dtype == "bf16");
  CHECK(blocks.weights == "q4_0+q8_0");
  CHECK(blocks.head_weights == "q8_0");
  options.target = demo("target");
  CHECK(blocks.weight_bytes < open_engine(options).target().weight_bytes * 0.5);
}
