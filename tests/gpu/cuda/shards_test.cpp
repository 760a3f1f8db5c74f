// Models in shards on several emulated GPUs: what the CPU's shards say but for rounding, always
// with the same bits, whatever moves what they add.
#include "models/shards.hpp"
#include "tests/gpu/cuda/demo_pair.hpp"
#include "tests/gpu/cuda/named_nccl.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/models/reference_checkpoint.hpp"

#include <array>
#include <boost/json.hpp>

using namespace paceline;
using namespace paceline::testing;
using gpu::testing::NamedNccl;
using models::test::Rows;
namespace test = models::test;

namespace {

using models::Devices;
using models::Stages;

/// Emulated GPUs, reset behind the test.
struct ShardedMachine {
  explicit ShardedMachine(int devices, bool linked = true) {
    cuda_emulation::reset({.devices = devices, .peers = linked});
  }
  ~ShardedMachine() {
    CHECK(cuda_emulation::violation().empty());
    cuda_emulation::reset({});
  }
  ShardedMachine(const ShardedMachine&) = delete;
  ShardedMachine& operator=(const ShardedMachine&) = delete;
};

std::shared_ptr<gpu::Device> gpus(int first, int count) {
  Devices devices;
  for (int i = first; i < first + count; ++i)
    devices.push_back(test::device("cuda:" + std::to_string(i)));
  return devices.front()->make_group(devices).value();
}

EngineOptions in_shards(int stages = 1) {
  EngineOptions options = small_on("cuda:0");
  options.devices.clear();
  for (int i = 0; i < 2 * stages; ++i)
    options.devices.push_back("cuda:" + std::to_string(i));
  options.tensor_parallel_size = 2;
  return options;
}

} // namespace

TEST_CASE("two and four shards on GPUs say what the CPU's say, but for rounding") {
  for (const char* name : {"Qwen 3", "Gemma 2", "Gemma 3 with a soft cap of logits"}) {
    CAPTURE(name);
    const auto& entry = test::reference_case(name);
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, entry, gpu::DType::f32);
    const auto source = test::source_of(folder.path());
    auto prompt = test::ids_of(entry.at("prompt"));
    prompt.resize(10);
    struct Case {
      NumberFormat format;
      double tolerance;
    };
    for (const int shards : {2, 4})
      for (const Case& c : {Case{NumberFormat::f32, 1e-4}, Case{NumberFormat::bf16, 2e-2}}) {
        CAPTURE(shards);
        models::LoadOptions options;
        options.dtype = c.format;
        const ShardedMachine machine(shards);
        const Rows expected =
            test::in_pieces(test::load_stages(*source, {test::group(shards)}, options), prompt);
        const Stages model = test::load_stages(*source, {gpus(0, shards)}, options);
        const Rows rows = test::in_pieces(model, prompt);
        const double off = test::worst_error(rows, expected);
        CHECK(off <= c.tolerance);
        CHECK(test::same_bits(test::in_pieces(model, prompt, 3), rows));
      }
  }
}

TEST_CASE("shards on GPUs have the same bits by NCCL and by copies, linked and not, in stages") {
  const auto& entry = test::reference_case("Qwen 3");
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, entry, gpu::DType::bf16);
  const auto source = test::source_of(folder.path());
  auto prompt = test::ids_of(entry.at("prompt"));
  prompt.resize(12);
  const auto rows = [&](bool nccl, bool linked, bool stages) {
    const ShardedMachine machine(4, linked);
    const NamedNccl named(nccl);
    Devices devices{gpus(0, 2)};
    if (stages)
      devices.push_back(gpus(2, 2));
    return test::in_pieces(test::load_stages(*source, devices, {}), prompt, nccl ? 5 : 12);
  };
  const Rows expected = rows(false, true, false);
  CHECK(test::same_bits(rows(true, true, false), expected));
  CHECK(test::same_bits(rows(true, false, false), expected));
  CHECK(test::same_bits(rows(false, false, true), expected));
  CHECK(test::same_bits(rows(true, true, true), expected));
}

TEST_CASE("over shards on GPUs the same tokens come in every mode") {
  const ShardedMachine machine(4);
  const auto expected = plain(in_shards());
  std::uint64_t accepted = 0;
  for (const bool nccl : {false, true})
    for (const SpeculationMode mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
      const NamedNccl named(nccl);
      EngineOptions options = in_shards(nccl ? 2 : 1);
      options.speculation = mode;
      options.window = mode == SpeculationMode::sync ? 3 : 2;
      options.prefill_chunk = nccl ? 3 : 64;
      Engine engine = open_engine(options);
      CHECK(engine.target().device.starts_with("cuda:0|cuda:1"));
      CHECK(engine.target().shards == 2);
      const auto answers = ask_all(engine, requests());
      CHECK(whole_tokens_of(answers) == expected);
      for (const Answer& answer : answers)
        accepted += answer.end().speculation.accepted;
      // `rejection` reads the draft's rows where the first shard judges.
      Request sampled = requests()[1];
      sampled.verify = VerifyRule::rejection;
      CHECK(whole_tokens_of({ask(engine, sampled)})[0].size() == expected[1].size());
      CHECK(engine.metrics().restarts == 0);
    }
  CHECK(accepted > 0);
}

TEST_CASE("a draft over two GPUs, in stages or in shards, changes no token of its target") {
  const ShardedMachine machine(3);
  const auto expected = plain(small_on("cuda:0"));
  for (const int shards : {1, 2}) {
    CAPTURE(shards);
    EngineOptions options = small_on("cuda:0");
    options.draft_devices = {"cuda:1", "cuda:2"};
    options.draft_tensor_parallel_size = shards;
    options.speculation = SpeculationMode::overlap;
    options.window = 3;
    Engine engine = open_engine(options);
    CHECK(engine.draft_model()->device == (shards == 1 ? "cuda:1+cuda:2" : "cuda:1|cuda:2"));
    const auto answers = ask_all(engine, requests());
    CHECK(whole_tokens_of(answers) == expected);
    // `rejection` reads, on the target's GPU, the rows that the last one of the draft's has left.
    Request sampled = requests()[1];
    sampled.verify = VerifyRule::rejection;
    CHECK(whole_tokens_of({ask(engine, sampled)})[0].size() == expected[1].size());
    CHECK(engine.metrics().accepted > 0);
    CHECK(engine.metrics().restarts == 0);
  }
}

TEST_CASE("when a GPU of a target in shards is lost requests end with a clear error") {
  for (const bool nccl : {false, true}) {
    CAPTURE(nccl);
    const ShardedMachine machine(2);
    const NamedNccl named(nccl);
    EngineOptions options = in_shards();
    options.faults.restart_pause = options.faults.restart_pause_max = std::chrono::milliseconds(1);
    options.faults.restarts_max = options.faults.recomputations_max = 3;
    Engine engine = open_engine(options);
    Request request = requests()[0];
    request.max_tokens = 60;
    Stream stream = submit(engine, request);
    Answer answer;
    answer.add(*stream.next());
    cuda_emulation::lose(1);
    while (auto event = stream.next())
      answer.add(std::move(*event));
    const Finished& end = answer.end();
    CHECK(end.reason == FinishReason::error);
    REQUIRE(end.error);
    CHECK(end.error->text().find("cuda:1 was lost") != std::string::npos);
  }
}

TEST_CASE("shards on GPUs read prompts by the fast path, each with products of its own") {
  const ShardedMachine machine(2);
  EngineOptions options = in_shards();
  options.prefill = Prefill::fast;
  options.prefill_chunk = 128;
  options.max_model_len = 200;
  Request request = requests()[0];
  request.prompt.clear();
  for (int i = 0; i < 130; ++i)
    request.prompt_tokens.push_back(i * 37 % 250 + 10);
  std::vector<std::vector<TokenId>> all;
  for (const int chunk : {64, 128}) {
    options.prefill_chunk = chunk;
    Engine engine = open_engine(options);
    all.push_back(ask(engine, request).tokens);
  }
  CHECK(all[0].size() == 5);
  CHECK(all[0] == all[1]);
}
