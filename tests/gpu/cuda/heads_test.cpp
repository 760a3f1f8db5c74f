// Promises 1 and 2 with heads on targets on GPUs, emulated or real: tiny models.
#include "tests/engine/gemma_with_assistant.hpp"
#include "tests/engine/model_with_block.hpp"
#include "tests/engine/target_with_drafter.hpp"
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/gpus.hpp"

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

namespace {

/// One greedy, one `coupled`, of tokens that the tiny models know.
std::vector<Request> tiny_requests() {
  std::vector<Request> both = requests();
  for (std::size_t r = 0; r < both.size(); ++r) {
    both[r].prompt.clear();
    for (int i = 0; i < 19; ++i)
      both[r].prompt_tokens.push_back(TokenId((int(r) + 37 * i + i * i) % tiny_vocabulary));
    both[r].max_tokens = 12;
  }
  return both;
}

/// Checks that a target with this head on a GPU gives its own tokens in every mode.
void check_head(const std::string& target, const std::string& head) {
  CAPTURE(head);
  EngineOptions options = on("cuda:0");
  options.target = target;
  options.drafters = {head};
  options.speculation = SpeculationMode::off;
  const auto answers_in = [&](std::uint64_t& accepted) {
    Engine engine = open_engine(options);
    const auto answers = ask_all(engine, tiny_requests());
    for (const Answer& answer : answers)
      accepted += answer.end().speculation.accepted;
    CHECK(!engine.metrics().draft_disabled);
    CHECK(engine.metrics().restarts == 0);
    return whole_tokens_of(answers);
  };
  std::uint64_t accepted = 0;
  const auto expected = answers_in(accepted);
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    options.speculation = mode;
    options.window = mode == SpeculationMode::sync ? 4 : 2;
    CHECK(answers_in(accepted) == expected);
  }
  CHECK(accepted > 0);
}

} // namespace

TEST_CASE("on a GPU a target with a head gives its own tokens in every mode") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  const TargetWithDrafter dflash;
  check_head(dflash.path(), dflash.drafter());
  const ModelWithBlock block;
  check_head(block.path(), "mtp");
  for (const std::size_t number : {0, 1}) {
    const GemmaWithAssistant gemma(number);
    check_head(gemma.target(), gemma.draft());
  }
}
