// The demo pair on devices of a test's choice, small enough for one that is emulated.
#pragma once

#include "models/model.hpp"
#include "models/sources.hpp"
#include "paceline/engine.hpp"
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace paceline::testing {

inline EngineOptions on(const std::string& device, const std::string& draft_device = {}) {
  EngineOptions options;
  options.devices = {device};
  if (!draft_device.empty())
    options.draft_devices = {draft_device};
  options.threads = 1;
  options.max_model_len = 128;
  options.max_num_seqs = 2;
  options.prefill_chunk = 64;
  options.kv_memory_bytes = std::size_t(16) << 20;
  return options;
}

/// The demo's draft model as a target, too, and as its own draft: a tenth of the work.
inline EngineOptions small_on(const std::string& device, const std::string& draft_device = {}) {
  EngineOptions options = on(device, draft_device);
  options.target = models::resolve_model_path("demo", "draft").value();
  options.drafters = {options.target};
  return options;
}

/// One greedy, one `coupled` with temperature, top-p and penalties.
inline std::vector<Request> requests() {
  std::vector<Request> both(2);
  both[0].prompt = "def f(";
  both[1].prompt = "import os\n";
  for (Request& request : both) {
    request.max_tokens = 5;
    request.ignore_eos = true;
    request.sampling.temperature = 0.0f;
  }
  both[1].sampling.temperature = 0.9f;
  both[1].sampling.top_p = 0.95f;
  both[1].sampling.repetition_penalty = 1.1f;
  both[1].sampling.seed = 5;
  return both;
}

/// Returns the tokens of answers, which must have ended by their lengths.
inline std::vector<std::vector<TokenId>> whole_tokens_of(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers)
    CHECK(answer.end().reason == FinishReason::length);
  return tokens_of(answers);
}

/// Each alone, without a draft.
inline std::vector<std::vector<TokenId>> plain(EngineOptions options) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::vector<Answer> answers;
  for (const Request& request : requests())
    answers.push_back(ask(engine, request));
  return whole_tokens_of(answers);
}

} // namespace paceline::testing
