// Promise 4 where a GPU goes: emulated ones are lost on request.
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

namespace {

using namespace std::chrono_literals;

/// Soon at their wits' end.
EngineOptions hasty(EngineOptions options) {
  options.faults.restart_pause = options.faults.restart_pause_max = 1ms;
  options.faults.restarts_max = options.faults.recomputations_max = 3;
  return options;
}

Request long_request() {
  Request request = requests()[0];
  request.max_tokens = 60;
  return request;
}

/// The first GPU goes when the answer has begun.
Answer ask_and_lose(Engine& engine, const Request& request) {
  Stream stream = submit(engine, request);
  Answer answer;
  answer.add(*stream.next());
  cuda_emulation::lose(0);
  while (auto event = stream.next())
    answer.add(std::move(*event));
  return answer;
}

std::vector<TokenId> tokens_on(const char* device) {
  Engine engine = open_engine(small_on(device));
  return ask(engine, long_request()).tokens;
}

} // namespace

TEST_CASE("when the target's GPU is lost requests end with a clear error, and the process lives") {
  const Gpus gpus(1);
  Engine engine = open_engine(hasty(small_on("cuda:0")));
  const Answer answer = ask_and_lose(engine, long_request());
  const Finished& end = answer.end();
  CHECK(end.reason == FinishReason::error);
  REQUIRE(end.error);
  CHECK(end.error->code == ErrorCode::unavailable);
  CHECK(end.error->text().find("cuda:0 was lost") != std::string::npos);
  Engine other = open_engine(small_on("cpu:0"));
  CHECK(ask(other, requests()[0]).tokens.size() == 5);
}

TEST_CASE("when the target's GPU is lost it goes on on its reserve, with the same tokens") {
  const auto [expected, others] = [] {
    const Gpus gpus(1);
    return std::pair(tokens_on("cuda:0"), plain(small_on("cuda:0")));
  }();
  for (const char* draft : {"cuda:0", "cuda:1", "cpu:0"}) {
    CAPTURE(draft);
    const Gpus gpus(2);
    EngineOptions options = hasty(small_on("cuda:0", draft));
    options.reserve_device = "cuda:1";
    options.speculation = SpeculationMode::overlap;
    Engine engine = open_engine(options);
    CHECK(engine.target().device == "cuda:0");
    const Answer answer = ask_and_lose(engine, long_request());
    CHECK(answer.end().reason == FinishReason::length);
    CHECK(answer.tokens == expected);
    CHECK(engine.metrics().target_moved); // so in the middle of the answer
    CHECK(engine.target().device == "cuda:1");
    CHECK(whole_tokens_of(ask_all(engine, requests())) == others);
    if (std::string_view(draft) != "cuda:0") // that one is gone, too
      CHECK_FALSE(engine.metrics().draft_disabled);
  }
}

TEST_CASE("when the draft's GPU is lost the target goes on alone, with the same tokens") {
  const Gpus gpus(1);
  EngineOptions options = hasty(small_on("cpu:0", "cuda:0"));
  options.speculation = SpeculationMode::overlap;
  Engine engine = open_engine(options);
  const Answer answer = ask_and_lose(engine, long_request());
  CHECK(answer.end().reason == FinishReason::length);
  CHECK(answer.tokens == tokens_on("cpu:0"));
  CHECK(whole_tokens_of(ask_all(engine, requests())) == plain(small_on("cpu:0")));
}
