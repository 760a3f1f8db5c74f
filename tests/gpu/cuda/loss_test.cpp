// Promise 4 where a GPU goes: emulated ones are lost on request.
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::Gpus;

TEST_CASE("when the target's GPU is lost requests end with a clear error, and the process lives") {
  const Gpus gpus(1);
  EngineOptions options = small_on("cuda:0");
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
  CHECK(end.error->code == ErrorCode::unavailable);
  CHECK(end.error->text().find("cuda:0 was lost") != std::string::npos);
  Engine other = open_engine(small_on("cpu:0"));
  CHECK(ask(other, requests()[0]).tokens.size() == 5);
}

TEST_CASE("when the target's GPU is lost it goes on on its reserve, with the same tokens") {
  const auto expected = [] {
    const Gpus gpus(1);
    return plain(small_on("cuda:0"));
  }();
  for (const char* draft : {"cuda:0", "cuda:1", "cpu:0"}) {
    CAPTURE(draft);
    const Gpus gpus(2);
    EngineOptions options = small_on("cuda:0", draft);
    options.reserve_device = "cuda:1";
    options.speculation = SpeculationMode::overlap;
    options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
    options.faults.restarts_max = 3;
    Engine engine = open_engine(options);
    CHECK(engine.target().device == "cuda:0");
    Stream stream = submit(engine, requests()[0]);
    Answer answer;
    answer.add(*stream.next());
    cuda_emulation::lose(0);
    while (auto event = stream.next())
      answer.add(std::move(*event));
    CHECK(answer.end().reason == FinishReason::length);
    CHECK(answer.tokens == expected[0]);
    CHECK(tokens_of(ask_all(engine, requests())) == expected);
    CHECK(engine.metrics().target_moved);
    CHECK(engine.target().device == "cuda:1");
    if (std::string_view(draft) != "cuda:0") // that one is gone, too
      CHECK_FALSE(engine.metrics().draft_left_out);
  }
}

TEST_CASE("when the draft's GPU is lost the target goes on alone, with the same tokens") {
  const Gpus gpus(1);
  const auto expected = plain(small_on("cpu:0"));
  EngineOptions options = small_on("cpu:0", "cuda:0");
  options.speculation = SpeculationMode::overlap;
  options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
  options.faults.restarts_max = 3;
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
