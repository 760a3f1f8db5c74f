// Promises 1 and 2 with models on GPUs, emulated or real: the demo pair, whole.
#include "gpu/cuda/context.hpp"
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/models/quantized_gguf.hpp"

#include <array>
#include <string_view>

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

TEST_CASE("on a GPU the same tokens come in every mode, window, batch, chunk and page") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  const auto context = gpu::cuda::Context::of(0).value();
  const auto expected = plain(on("cuda:0"));
  constexpr std::array modes{SpeculationMode::sync, SpeculationMode::overlap};
  constexpr std::array chunks{64, 3};
  constexpr std::array pages{16, 2};
  std::uint64_t accepted = 0;
  std::uint64_t passes_behind = 0;
  for (std::size_t turn = 0; turn < modes.size(); ++turn) {
    CAPTURE(turn);
    EngineOptions options = on("cuda:0");
    options.speculation = modes[turn];
    options.window = 2 + 2 * int(turn);
    options.prefill_chunk = chunks[turn];
    options.page_tokens = pages[turn];
    Engine engine = open_engine(options);
    const auto answers = ask_all(engine, requests());
    CHECK(whole_tokens_of(answers) == expected);
    for (const Answer& answer : answers)
      accepted += answer.end().speculation.accepted;
    passes_behind += engine.metrics().passes_behind;
  }
  CHECK(accepted > 0);      // Speculation was at work,
  CHECK(passes_behind > 0); // and the draft without the host.
  CHECK(context->graphs().launched > 0);
  CHECK(context->graphs().failed == 0);
}

TEST_CASE("a draft on multiprocessors that the target leaves changes no token") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  EngineOptions options = small_on("cuda:0/16-", "cuda:0/0-15");
  options.speculation = SpeculationMode::overlap;
  options.window = 3;
  const auto expected = plain(small_on("cuda:0"));
  for (const bool self : {false, true}) {
    CAPTURE(self);
    options.drafters = {self ? "self:mxfp4" : options.target};
    auto engine = Engine::open(options);
    if (!engine && engine.error().code == ErrorCode::unsupported)
      return; // The driver is older than what divides a GPU.
    const auto answers = ask_all(engine.value(), requests());
    CHECK(whole_tokens_of(answers) == expected);
    CHECK(answers[0].end().speculation.accepted > 0);
    CHECK((engine->draft_model()->shared_bytes > 0) == self);
  }
}

namespace {

/// Checks that the target's tokens come in other modes, windows, chunks and pages, too.
void check_modes(EngineOptions options, const char* weights, const char* head_weights) {
  const auto expected = plain(options);
  std::uint64_t accepted = 0;
  for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    options.speculation = mode;
    options.window = mode == SpeculationMode::sync ? 3 : 2;
    options.prefill_chunk = mode == SpeculationMode::sync ? 3 : 64;
    options.page_tokens = mode == SpeculationMode::sync ? 2 : 16;
    Engine engine = open_engine(options);
    CHECK(engine.target().weights == weights);
    CHECK(engine.target().head_weights == head_weights);
    const auto answers = ask_all(engine, requests());
    CHECK(whole_tokens_of(answers) == expected);
    for (const Answer& answer : answers)
      accepted += answer.end().speculation.accepted;
  }
  CHECK(accepted > 0);
}

} // namespace

TEST_CASE("on a GPU a pair in microscaling formats gives the same tokens in every mode") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  EngineOptions options = small_on("cuda:0");
  options.weights = WeightFormat::mxfp4;
  options.draft_weights = WeightFormat::mxfp6;
  options.head_weights = WeightFormat::mxfp8;
  check_modes(options, "mxfp4", "mxfp8");
}

TEST_CASE("on a GPU a GGUF's blocks give the same tokens in every mode") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  const TemporaryFolder folder;
  EngineOptions options = small_on("cuda:0");
  options.target = models::test::quantized_demo(folder, "draft");
  options.drafters = {"self:mxfp4"};
  check_modes(options, "q4_0+q8_0", "q8_0");
}

TEST_CASE("on a GPU a draft out of the target itself gives the target's tokens") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  EngineOptions options = small_on("cuda:0");
  const auto expected = plain(options);
  options.drafters = {"self:mxfp4"};
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  Engine engine = open_engine(options);
  const auto answers = ask_all(engine, requests());
  CHECK(whole_tokens_of(answers) == expected);
  CHECK(answers[0].end().speculation.accepted > 0);
}

namespace {

void check_pair(const char* target, const char* draft) {
  CAPTURE(target);
  CAPTURE(draft);
  const auto expected = plain(small_on(target));
  EngineOptions options = small_on(target, draft);
  options.speculation = SpeculationMode::sync;
  options.window = 3;
  Engine engine = open_engine(options);
  CHECK(whole_tokens_of(ask_all(engine, requests())) == expected);
  // `rejection` reads the draft's rows on the target's device.
  Request sampled = requests()[1];
  sampled.verify = VerifyRule::rejection;
  const Answer answer = ask(engine, sampled);
  CHECK(whole_tokens_of({answer})[0].size() == expected[1].size());
  CHECK(!engine.metrics().draft_disabled);
  CHECK(engine.metrics().restarts == 0);
  CHECK((engine.metrics().passes_behind > 0) == std::string_view(draft).starts_with("cuda"));
}

} // namespace

TEST_CASE("a pair on a GPU and the host, either way round, gives its target's tokens") {
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  check_pair("cuda:0", "cpu:0");
  check_pair("cpu:0", "cuda:0");
}

TEST_CASE("a pair on two GPUs, linked or not, gives its target's tokens") {
  for (const bool linked : {true, false}) {
    CAPTURE(linked);
    const Gpus gpus(2, linked);
    if (gpus.there())
      check_pair("cuda:1", "cuda:0");
  }
}

TEST_CASE("a caller's drafter works on the host beside a target on a GPU") {
  class Repeats final : public Drafter {
  public:
    void propose(std::span<DraftTask* const> tasks) override {
      for (DraftTask* task : tasks)
        while (task->wanted() > 0)
          task->propose(task->context().back());
    }
  };
  const Gpus gpus(1);
  if (!gpus.there())
    return;
  const auto expected = plain(small_on("cuda:0"));
  EngineOptions options = small_on("cuda:0");
  options.custom_drafter = std::make_shared<Repeats>();
  options.speculation = SpeculationMode::sync;
  options.window = 2;
  Engine engine = open_engine(options);
  CHECK(whole_tokens_of(ask_all(engine, requests())) == expected);
  Request sampled = requests()[1];
  sampled.verify = VerifyRule::rejection; // Its rows are written by the host.
  CHECK(ask(engine, sampled).tokens.size() == expected[1].size());
  options.draft_devices = {"cuda:0"};
  const auto refused = Engine::open(options);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("cuda:0") != std::string::npos);
}
