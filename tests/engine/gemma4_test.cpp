// Promises 1 and 2 with Gemma 4: layers that share keys, that have inputs of their own, and
// mixtures beside dense feed-forwards.
#include "tests/engine/draft_checks.hpp"
#include "tests/engine/tiny_model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions options_of(const TinyModel& target, std::vector<std::string> devices = {"cpu"}) {
  EngineOptions options;
  options.target = target.path();
  options.devices = std::move(devices);
  options.threads = 2;
  return options;
}

/// Prompts that are longer than a window, and shorter; every other one is drawn by coupling.
std::vector<Request> some_prompts(int count) {
  std::vector<Request> requests;
  for (int r = 0; r < count; ++r) {
    Request request;
    for (int i = 0; i < 7 + 11 * r; ++i)
      request.prompt_tokens.push_back(TokenId((i * 29 + i * i + r) % vocabulary));
    request.max_tokens = 24;
    request.ignore_eos = true;
    request.sampling.temperature = r % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.seed = std::uint64_t(5 + r);
    request.verify = VerifyRule::coupled;
    requests.push_back(std::move(request));
  }
  return requests;
}

constexpr const char* gemmas[] = {
    "Gemma 4", "Gemma 4 with embeddings of layers, and keys that these share", "Gemma 4 MoE"};

} // namespace

TEST_CASE("with a Gemma 4: the same tokens in every mode, chunk, page, batch and team") {
  for (const char* name : gemmas) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    const auto requests = some_prompts(4);
    EngineOptions options = options_of(target);
    options.threads = 1;
    options.max_num_seqs = 1;
    const Answers expected = plain_answers_of(options, requests);
    for (const SpeculationMode mode :
         {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
      CAPTURE(int(mode));
      options = options_of(target);
      options.drafters = {"self:mxfp4"};
      options.speculation = mode;
      if (mode == SpeculationMode::sync) {
        options.window = 6;
        options.prefill_chunk = 5;
        options.page_tokens = 2;
      }
      SpeculationStats stats;
      CHECK(answers_of(options, requests, &stats) == expected);
      CHECK((stats.accepted > 0 || mode == SpeculationMode::automatic)); // It may choose `off`.
    }
  }
}

TEST_CASE("a Gemma 4 in stages has the tokens of the whole, and in shards tokens all the same") {
  for (const char* name : gemmas) {
    CAPTURE(std::string(name));
    const TinyModel target(name);
    const auto requests = some_prompts(3);
    EngineOptions options = options_of(target);
    const Answers expected = plain_answers_of(options, requests);
    options = options_of(target, {"cpu:0", "cpu:1"});
    for (const char* draft : {"suffix", "self:mxfp4"}) {
      CAPTURE(std::string(draft));
      options.tensor_parallel_size = 1;
      options.drafters = {draft};
      CHECK(answers_of(options, requests) == expected);
      if (name == gemmas[2])
        continue; // Its experts have 24 units, which are no two shards of whole eights.
      options.tensor_parallel_size = 2;
      const Answers divided = plain_answers_of(options, requests);
      CHECK(answers_of(options, requests) == divided);
    }
  }
}
