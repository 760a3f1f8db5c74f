// What holds for targets of any family, on tiny checkpoints (promises 1 and 2).
#pragma once

#include "tests/engine/draft_checks.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/support/effort.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

inline EngineOptions options_of(const TinyModel& target,
                                std::vector<std::string> devices = {"cpu"}) {
  EngineOptions options;
  options.target = target.path();
  options.devices = std::move(devices);
  options.threads = 2;
  return options;
}

/// Prompts of several lengths; every other one is drawn by coupling, and one repeats itself, for
/// look-ups.
inline std::vector<Request> requests_to(int count, int tokens = sanitized ? 12 : 32) {
  std::vector<Request> requests;
  for (int r = 0; r < count; ++r) {
    Request request;
    for (int i = 0; i < 7 + 11 * r; ++i)
      request.prompt_tokens.push_back(
          TokenId(r == 2 ? i % 5 : (i * 37 + i * i + r) % tiny_vocabulary));
    request.max_tokens = tokens;
    request.ignore_eos = true;
    request.sampling.temperature = r % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.seed = std::uint64_t(5 + r);
    request.verify = VerifyRule::coupled;
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Returns what the target alone answers to each request by itself, on one thread.
inline Answers alone(const TinyModel& target, const std::vector<Request>& requests,
                     KvCacheDtype cached = KvCacheDtype::automatic) {
  EngineOptions options = options_of(target);
  options.kv_cache_dtype = cached;
  options.threads = 1;
  options.max_num_seqs = 1;
  return plain_answers_of(options, requests);
}

/// The same tokens in every mode, with other chunks, pages, batches and teams.
inline void check_modes(const TinyModel& target, KvCacheDtype cached = KvCacheDtype::automatic) {
  const auto requests = requests_to(4);
  const Answers expected = alone(target, requests, cached);
  EngineOptions options = options_of(target);
  options.kv_cache_dtype = options.draft_kv_cache_dtype = cached;
  for (const SpeculationMode mode :
       {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
    CAPTURE(int(mode));
    SpeculationStats stats;
    CHECK(answers_of(drafting(options, "self:mxfp4", mode), requests, &stats) == expected);
    CHECK((stats.accepted > 0 || mode == SpeculationMode::automatic)); // It may choose `off`.
  }
}

/// Two stages have the tokens of the whole; two shards, whose sums are in another order, the same
/// with a draft and without. shards: the model can be divided so.
inline void check_divided(const TinyModel& target, const std::vector<std::string>& drafts,
                          bool shards = true) {
  const auto requests = requests_to(3);
  const Answers expected = plain_answers_of(options_of(target), requests);
  EngineOptions options = options_of(target, {"cpu:0", "cpu:1"});
  for (const std::string& draft : drafts) {
    CAPTURE(draft);
    options.drafters = {draft};
    options.tensor_parallel_size = 1;
    CHECK(answers_of(options, requests) == expected);
    if (!shards)
      continue;
    options.tensor_parallel_size = 2;
    CHECK(answers_of(options, requests) == plain_answers_of(options, requests));
  }
}

} // namespace paceline::testing
