// Keys and values of 8 bits: promises 1 and 2 with the demo pair, and what memory it takes.
#include "tests/engine/family_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions in_8_bits() {
  EngineOptions options;
  options.kv_cache_dtype = options.draft_kv_cache_dtype = KvCacheDtype::int8;
  options.threads = 2;
  return options;
}

/// Scores a text, whose tokens seldom tell what their logits were.
std::vector<float> scores_of(EngineOptions options) {
  options.drafters.clear();
  Engine engine = open_engine(options);
  Request request = repeatable("def quicksort(values):\n    if len(values) < 2:\n", 1);
  request.prompt_logprobs = true;
  std::vector<float> scores;
  for (const Answer& answer : ask_all(engine, {request}))
    for (const PromptLogprobs& part : answer.prompt)
      for (const TokenLogprob& token : part.logprobs)
        scores.push_back(token.logprob);
  REQUIRE(scores.size() > 8);
  return scores;
}

} // namespace

TEST_CASE("with a cache of int8: the same tokens in every mode, window, page, team and stage") {
  EngineOptions options = in_8_bits();
  options.threads = 1;
  options.max_num_seqs = 1;
  const Answers expected = plain_answers_of(options, both_requests());
  std::uint64_t accepted = 0;
  for (const SpeculationMode mode :
       {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic})
    for (const char* draft : {"demo", "self:mxfp4", "suffix"}) {
      CAPTURE(std::string(draft));
      options = in_8_bits();
      options.window = 3;
      options = drafting(options, draft, mode);
      if (mode == SpeculationMode::overlap)
        options.devices = {"cpu:0", "cpu:1"};
      if (mode == SpeculationMode::automatic)
        options.window = std::nullopt;
      SpeculationStats stats;
      CHECK(answers_of(options, both_requests(), &stats) == expected);
      accepted += stats.accepted;
    }
  CHECK(accepted > 50);
}

TEST_CASE("a cache of int8 is another numeric setting, whatever the chunks and pages") {
  EngineOptions options = in_8_bits();
  const auto expected = scores_of(options);
  CHECK(expected != scores_of({}));
  options.prefill_chunk = 3;
  options.page_tokens = 2;
  options.threads = 1;
  CHECK(scores_of(options) == expected);
  CHECK(open_engine(options).target().kv_cache_dtype == "int8");
  CHECK(open_engine({}).target().kv_cache_dtype.empty());
}

TEST_CASE("a draft's cache changes no token of the target, and few of its own") {
  const Answers expected = plain_answers_of({}, both_requests());
  for (const char* draft : {"demo", "self:mxint8"}) {
    CAPTURE(std::string(draft));
    EngineOptions options = drafting({}, draft, SpeculationMode::sync);
    options.draft_kv_cache_dtype = KvCacheDtype::int8;
    options.threads = 2;
    SpeculationStats with;
    CHECK(answers_of(options, both_requests(), &with) == expected);
    Engine engine = open_engine(options);
    CHECK(engine.draft_model().value().kv_cache_dtype == "int8");
    CHECK(engine.target().kv_cache_dtype.empty());
    options.draft_kv_cache_dtype = KvCacheDtype::automatic;
    SpeculationStats without;
    answers_of(options, both_requests(), &without);
    CHECK(with.acceptance_rate() > without.acceptance_rate() - 0.1);
  }
}

TEST_CASE("layers that share keys, and heads of several sizes: the same tokens in every mode") {
  for (const char* name :
       {"Gemma 4", "Gemma 4 with embeddings of layers, and keys that these share"}) {
    CAPTURE(std::string(name));
    check_modes(TinyModel(name), KvCacheDtype::int8);
  }
}

TEST_CASE("a cache of int8 holds almost twice as many positions") {
  const auto pages_of = [](KvCacheDtype dtype) {
    EngineOptions options;
    options.drafters.clear();
    options.kv_memory_bytes = 8 << 20;
    options.kv_cache_dtype = dtype;
    Engine engine = open_engine(options);
    ask(engine, repeatable("def", 1)); // Pages are counted with the first that are given out.
    return engine.metrics().kv_pages_total;
  };
  const auto before = pages_of(KvCacheDtype::automatic);
  const auto after = pages_of(KvCacheDtype::int8);
  CHECK(before == (8u << 20) / (16 * 6 * 2 * 2 * 128));
  CHECK(after == (8u << 20) / (16 * 6 * 2 * 2 * (64 + 4)));
}

TEST_CASE("a cache of int8 is refused by name where there is none") {
  EngineOptions options = simulated();
  options.kv_cache_dtype = KvCacheDtype::int8;
  check_refused(options, {"no keys and values", "EngineOptions::kv_cache_dtype"});
}
