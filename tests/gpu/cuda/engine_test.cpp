// Promises 1, 2 and 4 with models on emulated GPUs: the demo pair, whole.
#include "cuda_emulation.hpp"
#include "paceline/engine.hpp"
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace paceline;
using namespace paceline::testing;

namespace {

struct Machine {
  explicit Machine(int devices) { cuda_emulation::reset({.devices = devices}); }
  ~Machine() {
    CHECK(cuda_emulation::violation().empty());
    cuda_emulation::reset({});
  }
};

EngineOptions on(const std::string& device, const std::string& draft_device = {}) {
  EngineOptions options;
  options.device = device;
  options.draft_device = draft_device;
  options.threads = 1;
  options.max_model_len = 128;
  options.max_num_seqs = 2;
  options.prefill_chunk = 64;
  options.kv_memory_bytes = std::size_t(16) << 20;
  return options;
}

/// One greedy, one `coupled` with temperature, top-p and penalties.
std::vector<Request> requests() {
  std::vector<Request> both(2);
  both[0].prompt = "def mean(values):\n    return ";
  both[1].prompt = "import os\n";
  for (Request& request : both) {
    request.max_tokens = 10;
    request.ignore_eos = true;
    request.sampling.temperature = 0.0f;
  }
  both[1].sampling.temperature = 0.9f;
  both[1].sampling.top_p = 0.95f;
  both[1].sampling.repetition_penalty = 1.1f;
  both[1].sampling.seed = 5;
  return both;
}

std::vector<std::vector<TokenId>> tokens_of(const std::vector<Answer>& answers) {
  std::vector<std::vector<TokenId>> all;
  for (const Answer& answer : answers) {
    CHECK(answer.end().reason == FinishReason::length);
    all.push_back(answer.tokens);
  }
  return all;
}

/// Each alone, without a draft.
std::vector<std::vector<TokenId>> plain_on(const std::string& device) {
  EngineOptions options = on(device);
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::vector<Answer> answers;
  for (const Request& request : requests())
    answers.push_back(ask(engine, request));
  return tokens_of(answers);
}

} // namespace

TEST_CASE("on a GPU the same tokens come in every mode, window, batch, chunk and page") {
  const Machine machine(1);
  const auto expected = plain_on("cuda:0");
  constexpr std::array modes{SpeculationMode::sync, SpeculationMode::overlap,
                             SpeculationMode::automatic};
  constexpr std::array chunks{64, 7, 1};
  constexpr std::array pages{16, 2, 64};
  std::uint64_t accepted = 0;
  for (std::size_t turn = 0; turn < 3; ++turn) {
    CAPTURE(turn);
    EngineOptions options = on("cuda:0");
    options.speculation = modes[turn];
    options.window = 2 + int(turn);
    options.prefill_chunk = chunks[turn];
    options.page_tokens = pages[turn];
    Engine engine = open_engine(options);
    const auto answers = ask_all(engine, requests());
    CHECK(tokens_of(answers) == expected);
    for (const Answer& answer : answers)
      accepted += answer.end().speculation.accepted;
  }
  CHECK(accepted > 10); // Speculation was at work.
}

TEST_CASE("a pair on two devices, whichever, gives its target's tokens") {
  const Machine machine(2);
  struct Pair {
    const char* target;
    const char* draft;
  };
  for (const auto& [target, draft] : {Pair{"cuda:0", "cpu:0"}, Pair{"cpu:0", "cuda:0"},
                                      Pair{"cuda:1", "cuda:0"}}) {
    CAPTURE(target);
    CAPTURE(draft);
    const auto expected = plain_on(target);
    EngineOptions options = on(target, draft);
    options.speculation = SpeculationMode::overlap;
    options.window = 3;
    Engine engine = open_engine(options);
    CHECK(tokens_of(ask_all(engine, requests())) == expected);
    // `rejection` reads the draft's rows on the target's device, and checks draws now and then.
    Request sampled = requests()[1];
    sampled.verify = VerifyRule::rejection;
    const Answer answer = ask(engine, sampled);
    CHECK(answer.tokens.size() == 10);
    CHECK(answer.end().speculation.judged > 0);
    CHECK(!engine.metrics().draft_left_out);
    CHECK(engine.metrics().restarts == 0);
  }
}

TEST_CASE("a caller's drafter works on the host beside a target on a GPU") {
  class Repeats final : public Drafter {
  public:
    Proposal propose(std::span<const TokenId> context, int most, const DrafterSampling&) override {
      Proposal proposal;
      proposal.tokens.assign(std::size_t(most), context.back());
      return proposal;
    }
  };
  const Machine machine(1);
  const auto expected = plain_on("cuda:0");
  EngineOptions options = on("cuda:0");
  options.drafter = std::make_shared<Repeats>();
  options.speculation = SpeculationMode::sync;
  options.window = 2;
  Engine engine = open_engine(options);
  CHECK(tokens_of(ask_all(engine, requests())) == expected);
  Request sampled = requests()[1];
  sampled.verify = VerifyRule::rejection; // Its rows are written by the host.
  CHECK(ask(engine, sampled).tokens.size() == 10);
  options.draft_device = "cuda:0";
  const auto refused = Engine::open(options);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("cuda:0") != std::string::npos);
}

TEST_CASE("when the target's GPU is lost requests end with a clear error, and the process lives") {
  const Machine machine(1);
  EngineOptions options = on("cuda:0");
  options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
  options.faults.restarts_max = options.faults.rebuilds_max = 3;
  Engine engine = open_engine(options);
  Request request = requests()[0];
  request.max_tokens = 100;
  Stream stream = submit(engine, request);
  Answer answer;
  while (answer.tokens.size() < 3)
    answer.add(*stream.next());
  cuda_emulation::lose(0);
  while (auto event = stream.next())
    answer.add(std::move(*event));
  const Finished& end = answer.end();
  CHECK(end.reason == FinishReason::error);
  REQUIRE(end.error);
  CHECK(end.error->text().find("cuda:0 was lost") != std::string::npos);
  Engine other = open_engine(on("cpu:0"));
  CHECK(ask(other, requests()[0]).tokens.size() == 10);
}

TEST_CASE("when the draft's GPU is lost the target goes on alone, with the same tokens") {
  const Machine machine(1);
  const auto expected = plain_on("cpu:0");
  EngineOptions options = on("cpu:0", "cuda:0");
  options.speculation = SpeculationMode::overlap;
  options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
  Engine engine = open_engine(options);
  Stream stream = submit(engine, requests()[0]);
  Answer answer;
  answer.add(*stream.next());
  cuda_emulation::lose(0);
  while (auto event = stream.next())
    answer.add(std::move(*event));
  CHECK(answer.end().reason == FinishReason::length);
  CHECK(answer.tokens == expected[0]);
  CHECK(tokens_of(ask_all(engine, requests())) == expected);
}
