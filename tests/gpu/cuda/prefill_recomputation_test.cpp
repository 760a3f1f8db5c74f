// Promises 2b and 4 for prompts that are read by the fast path: what is recomputed is read by the
// same path again.
#include "tests/fault/live_engine.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda/prefill_support.hpp"

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

namespace {

std::vector<Request> requests_of(int max_tokens) {
  std::vector<Request> asked = long_requests();
  for (Request& request : asked)
    request.max_tokens = max_tokens;
  return asked;
}

/// Both as one batch, undisturbed.
std::vector<Bits> undisturbed(const std::vector<Request>& asked) {
  EngineOptions options = reading_fast();
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  return bits_of(ask_all(engine, asked));
}

} // namespace

TEST_CASE("sequences that are recomputed after a fault have the fast path's bits again") {
  const Gpus gpus(1);
  const auto asked = requests_of(12);
  const auto expected = undisturbed(asked);
  for (const Part victim : {Part::target, Part::kv_cache, Part::scheduler}) {
    CAPTURE(to_string(victim));
    EngineOptions options = reading_fast();
    options.speculation = SpeculationMode::off;
    options.drafters.clear();
    options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
    LiveEngine engine(options);
    std::vector<Bits> came(asked.size());
    std::vector<std::shared_ptr<LiveAnswer>> answers;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      answers.push_back(std::make_shared<LiveAnswer>([&bits = came[i]](const Event& event) {
        if (const auto* delta = std::get_if<Delta>(&event))
          bits.add(*delta);
      }));
      engine.submit(asked[i], answers[i]);
    }
    while (answers[1]->count() < 4 && !answers[1]->ended())
      std::this_thread::yield();
    CHECK(engine.kill(victim));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      CHECK(answers[i]->wait().reason == FinishReason::length);
      CHECK(came[i] == expected[i]);
    }
    CHECK(engine.metrics().restarts > 0);
  }
}

TEST_CASE("a sequence that was preempted has the fast path's bits again") {
  const Gpus gpus(1);
  const auto asked = requests_of(90);
  const auto expected = undisturbed(asked);
  EngineOptions options = reading_fast();
  options.speculation = SpeculationMode::off;
  options.drafters.clear();
  options.kv_memory_bytes = std::size_t(224) << 10; // 28 pages, of which both would have 29.
  Engine engine = open_engine(options);
  CHECK(bits_of(ask_all(engine, asked)) == expected);
  CHECK(engine.metrics().preemptions > 0);
}
