// Promise 2 for prompts that are read by the fast path, on a GPU, emulated or real.
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda/prefill_support.hpp"

#include <array>

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

namespace {

/// Whether there is a GPU that the fast path can be had on.
bool fast_path_there(const Gpus& gpus) {
  if (!gpus.there())
    return false;
  const auto opened = Engine::open(reading_fast());
  if (!opened)
    MESSAGE("skipped: ", opened.error().text());
  return opened.has_value();
}

} // namespace

TEST_CASE("by the fast path the same bits come in every mode, window, batch, chunk and page") {
  const Gpus gpus(1);
  if (!fast_path_there(gpus))
    return;
  const auto asked = long_requests();
  const auto expected = alone(reading_fast(), asked);
  constexpr std::array modes{SpeculationMode::sync, SpeculationMode::overlap};
  constexpr std::array chunks{64, 200};
  constexpr std::array pages{24, 128};
  for (std::size_t turn = 0; turn < modes.size(); ++turn) {
    CAPTURE(turn);
    EngineOptions options = reading_fast();
    options.speculation = modes[turn];
    options.window = 2 + 2 * int(turn);
    options.prefill_chunk = chunks[turn];
    options.page_tokens = pages[turn];
    Engine engine = open_engine(options);
    CHECK(engine.target().prefill == Prefill::fast);
    CHECK(bits_of(ask_all(engine, asked)) == expected);
    CHECK(bits_of(ask_all(engine, asked)) == expected); // From what the prefix cache has.
  }
}

TEST_CASE("what one path wrote is not shared with a sequence that reads it by the other") {
  const Gpus gpus(1);
  if (!fast_path_there(gpus))
    return;
  EngineOptions options = reading_fast();
  options.speculation = SpeculationMode::off;
  options.page_tokens = 16;
  Request first = long_requests()[1]; // Two chunks and a bit.
  first.prompt_tokens.resize(180);
  first.max_tokens = 16;
  Engine engine = open_engine(options);
  const Answer answer = ask(engine, first);
  // The next turn of a conversation: its prompt has the answer's tokens, which were decoded.
  Request next = first;
  next.prompt_tokens.insert(next.prompt_tokens.end(), answer.tokens.begin(), answer.tokens.end());
  next.max_tokens = 5;
  const Answer shared = ask(engine, next);
  CHECK(shared.end().usage.cached_tokens == 128);
  CHECK(bits_of(shared) == alone(options, {next})[0]);
  // One whose every logit is asked for is not read by the fast path, and what it wrote is its own.
  Request scored = first;
  scored.max_tokens = 5;
  scored.prompt_logprobs = true;
  ask(engine, scored);
  CHECK(bits_of(ask(engine, next)) == bits_of(shared));
}

TEST_CASE("prompts of one chunk and less are read as ever, longer ones with other bits") {
  const Gpus gpus(1);
  if (!fast_path_there(gpus))
    return;
  Request shorter = long_requests()[0];
  shorter.prompt_tokens.resize(64); // The last one's logits are asked for.
  const std::vector asked{shorter, long_requests()[0]};
  EngineOptions invariant = reading_fast();
  invariant.prefill = Prefill::invariant;
  const auto fast = alone(reading_fast(), asked);
  const auto exact = alone(invariant, asked);
  CHECK(fast[0] == exact[0]);
  CHECK(fast[1].logprobs != exact[1].logprobs);
}
