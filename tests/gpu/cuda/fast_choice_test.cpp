// Which of cuBLASLt's algorithms is taken, and what is said where none is: the emulated library
// offers what a test wants.
#include "gpu/cuda/survey.hpp"
#include "gpu/cuda/yardstick.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/rig.hpp"

#include <cstdlib>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;
using cuda_emulation::CublasAlgorithm;

namespace {

/// A machine whose cuBLASLt offers these.
struct ChoiceMachine {
  explicit ChoiceMachine(std::vector<CublasAlgorithm> offered = {CublasAlgorithm::steady}) {
    cuda_emulation::reset({.cublas = std::move(offered)});
  }
  ~ChoiceMachine() { cuda_emulation::reset({}); }
};

/// Another library, for a scope.
struct Library {
  explicit Library(const char* path) { setenv("PACELINE_CUBLASLT", path, 1); }
  ~Library() { setenv("PACELINE_CUBLASLT", PACELINE_CUBLAS_EMULATED, 1); }
};

constexpr int choice_rows = 3 * fast_chunk;

Result<void> prepare(const Rig& rig, DType dtype = DType::bf16) {
  Random random(23);
  const HostWeight host(dtype, 80, 64, random);
  const auto weight = rig.device->pack({&host.matrix, 1}).value();
  return rig.device->prepare_fast_products({&weight, 1}, choice_rows);
}

Error refusal(const Result<void>& result) {
  REQUIRE(!result);
  CHECK(result.error().text().find('\n') == std::string::npos);
  CHECK(result.error().hint.find("leave EngineOptions::prefill out") != std::string::npos);
  return result.error();
}

} // namespace

TEST_CASE("an algorithm whose rows depend on how many they are, or where, is passed over") {
  using enum CublasAlgorithm;
  const ChoiceMachine machine({wants_many, varies_with_rows, splits, varies_with_place, steady});
  Rig rig("cuda:0", 1);
  Random random(24);
  const HostWeight host(DType::bf16, 80, 64, random);
  const auto weight = rig.device->pack({&host.matrix, 1}).value();
  REQUIRE(rig.device->prepare_fast_products({&weight, 1}, choice_rows));
  rig.lane = rig.device->open_lane("target").value();
  Matrix in(choice_rows, 64, random);
  Matrix last = in.slice(2 * fast_chunk, fast_chunk);
  Matrix whole(choice_rows, 80);
  Matrix part(fast_chunk, 80);
  Matrix ours(choice_rows, 80);
  rig.run([&](Operations& ops) {
    ops.linear_fast(whole.tensor(), in.tensor(), *weight, false);
    ops.linear_fast(part.tensor(), last.tensor(), *weight, false);
    ops.linear(ours.tensor(), in.tensor(), *weight);
  });
  CHECK(part == whole.slice(2 * fast_chunk, fast_chunk));
  CHECK(!(whole == ours)); // So that tests of engines see which path was taken.
}

TEST_CASE(
    "where what is offered for many rows does not take few, what is offered for few is tried") {
  using enum CublasAlgorithm;
  const ChoiceMachine machine({wants_many, offered_for_few});
  CHECK(prepare(Rig("cuda:0", 1)));
}

TEST_CASE("where no algorithm repeats the fast path is refused, with the product's shape") {
  using enum CublasAlgorithm;
  for (const auto& offered :
       {std::vector{varies_with_rows}, std::vector{varies_with_place}, std::vector{splits},
        std::vector{wants_many}, std::vector<CublasAlgorithm>()}) {
    const ChoiceMachine machine(offered);
    const Rig rig("cuda:0", 1);
    const Error error = refusal(prepare(rig));
    CHECK(says(error, "cuda:0"));
    CHECK(says(error, "64 inputs and 80 outputs"));
  }
}

TEST_CASE("a cuBLASLt that is missing, or is something else, is said in one line") {
  const ChoiceMachine machine;
  const Rig rig("cuda:0", 1);
  {
    const Library missing("/nowhere/libcublasLt.so.13");
    const Error error = refusal(prepare(rig));
    CHECK(error.code == ErrorCode::not_found);
    CHECK(says(error, "/nowhere/libcublasLt.so.13"));
    CHECK(says(error, "PACELINE_CUBLASLT"));
    const auto survey = cuda::survey();
    CHECK(!survey.cublas);
    REQUIRE(survey.no_cublas);
    CHECK(!cuda::time_products("cuda:0", {}, {}));
  }
  {
    const Library other("libm.so.6");
    CHECK(says(refusal(prepare(rig)), "is not cuBLASLt"));
  }
  CHECK(prepare(rig));
  CHECK(cuda::survey().cublas->major == 13);
}

TEST_CASE("weights that are not multiplied as bf16 have no fast products") {
  const ChoiceMachine machine;
  const Rig rig("cuda:0", 1);
  CHECK(says(refusal(prepare(rig, DType::f32)), "not f32"));
  CHECK(says(refusal(prepare(rig, DType::f16)), "not f16"));
}

TEST_CASE("a lane that was opened before products were prepared refuses them, and goes on") {
  const ChoiceMachine machine;
  const Rig rig("cuda:0", 1);
  Random random(25);
  const HostWeight host(DType::bf16, 80, 64, random);
  const auto weight = rig.device->pack({&host.matrix, 1}).value();
  Matrix in(fast_chunk, 64, random);
  Matrix out(fast_chunk, 80);
  const auto step = std::make_shared<TestStep>(
      [&](Operations& ops) { ops.linear_fast(out.tensor(), in.tensor(), *weight, false); });
  REQUIRE(rig.lane->submit(step));
  const Retirement how = step->wait();
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(says(*how.error, "not prepared"));
  rig.run([&](Operations& ops) { ops.linear(out.tensor(), in.tensor(), *weight); });
}

TEST_CASE("products are timed beside cuBLASLt's, each shape once at each number of rows") {
  const ChoiceMachine machine;
  const Rig rig("cuda:0", 1);
  Random random(26);
  std::vector<std::shared_ptr<const Weight>> weights;
  for (const int outputs : {32, 48, 32}) {
    const HostWeight host(outputs == 48 ? WeightFormat::mxfp6 : WeightFormat::bf16, outputs, 64,
                          random);
    weights.push_back(rig.device->pack({&host.matrix, 1}).value());
  }
  constexpr std::array counts{1, 9};
  const auto times = cuda::time_products("cuda:0", weights, counts);
  REQUIRE_MESSAGE(times, times.error().text());
  REQUIRE(times->size() == 4);
  for (const cuda::ProductTimes& time : *times) {
    CHECK(time.inputs == 64);
    CHECK(time.ours > 0);
    CHECK(time.cublas > 0);
  }
  CHECK(times->at(3).outputs == 48);
  CHECK(times->at(3).rows == 9);
}
