// Rows that are rounded to 8 bits: promises 1 and 2 with the demo pair on this machine's cores.
#include "tests/engine/draft_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions rounded(WeightFormat format) {
  EngineOptions options;
  options.weights = options.draft_weights = format;
  options.activations = options.draft_activations = Activations::int8;
  options.threads = 2;
  return options;
}

} // namespace

TEST_CASE("with activations of int8: the same tokens in every mode, chunk, page, team and stage") {
  std::uint64_t accepted = 0;
  for (const WeightFormat format :
       {WeightFormat::mxfp4, WeightFormat::mxfp6, WeightFormat::mxint8}) {
    CAPTURE(std::string(to_string(format)));
    EngineOptions options = rounded(format);
    options.threads = 1;
    options.max_num_seqs = 1;
    const Answers expected = plain_answers_of(options, both_requests());
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      options = rounded(format);
      options.window = 3;
      options = drafting(options, "demo", mode);
      if (mode == SpeculationMode::overlap)
        options.devices = {"cpu:0", "cpu:1"};
      SpeculationStats stats;
      CHECK(answers_of(options, both_requests(), &stats) == expected);
      accepted += stats.accepted;
    }
  }
  CHECK(accepted > 50);
}

TEST_CASE("a draft's activations change no token of the target, and few of its own") {
  const Answers expected = plain_answers_of({}, both_requests());
  for (const char* draft : {"self:mxfp4", "self:mxint8"}) {
    CAPTURE(std::string(draft));
    EngineOptions options;
    options.drafters = {draft};
    options.draft_activations = Activations::int8;
    options.threads = 2;
    options.speculation = SpeculationMode::sync;
    SpeculationStats stats;
    CHECK(answers_of(options, both_requests(), &stats) == expected);
    CHECK(stats.acceptance_rate() > 0.7);
    Engine engine = open_engine(options);
    CHECK(engine.draft_model().value().activations == "int8");
    CHECK(engine.target().activations.empty());
  }
}

TEST_CASE("activations of int8 leave weights that are no integers alone") {
  EngineOptions options = rounded(WeightFormat::mxfp8);
  Engine engine = open_engine(options);
  CHECK(engine.target().activations.empty());
}
