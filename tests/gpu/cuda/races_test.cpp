// Accesses that nothing orders are found whatever order the threads run in, and only those, and
// what accesses cost is counted. This file's kernels are compiled as those of the tree are for this
// program.
#include "gpu/cuda/launch.hpp"
#include "gpu/cuda/ptx.cuh"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include "tests/gpu/cuda_emulation/traffic.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline::gpu::cuda;

namespace {

constexpr int threads = 64;

struct Shared {
  float values[threads];
};

enum class Order { none, exchange, warp, block };

void wait(Order order) {
  switch (order) {
  case Order::none: return;
  case Order::exchange: (void)__shfl_xor_sync(~0u, 1.0f, 1); return;
  case Order::warp: __syncwarp(); return;
  case Order::block: __syncthreads(); return;
  }
}

/// Reads a neighbour's number, and gives it another one then.
void exchange_numbers(float* out, int distance, Order written, Order read) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  shared.values[threadIdx.x] = float(threadIdx.x);
  wait(written);
  out[threadIdx.x] = shared.values[int(threadIdx.x) ^ distance];
  wait(read);
  shared.values[threadIdx.x] = 0;
}

/// Tells the next block of the cluster a number, which reads it.
void tell_next_block(float* out, bool waits) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  const unsigned next = (ptx::cluster_rank() + 1) % ptx::cluster_blocks();
  ptx::cluster_barrier();
  ptx::of_block(shared.values[threadIdx.x], next) = 1;
  if (waits)
    ptx::cluster_barrier();
  else
    __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared.values[threadIdx.x];
  ptx::cluster_barrier();
}

void write_by_all_blocks(float* out) {
  ptx::await_previous();
  out[threadIdx.x] = 1;
}

void count(int* out) {
  ptx::await_previous();
  atomicAdd(out, 1);
}

void fetch(float* out, const float* in, bool waits) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  ptx::copy_async<4>(&shared.values[threadIdx.x], in + threadIdx.x);
  ptx::commit_copies();
  if (waits)
    ptx::wait_for_copies<0>();
  out[threadIdx.x] = shared.values[threadIdx.x];
}

/// Reads every `step`-th number, and hands it on through shared memory with as many between two.
void stride(float* numbers, int step) {
  ptx::await_previous();
  float* const shared = ptx::shared_array<float>(32 * threads);
  shared[int(threadIdx.x) * step] = numbers[int(threadIdx.x) * step];
}

/// Does the same with four numbers at once.
void stride_wide(uint4* numbers, int step) {
  ptx::await_previous();
  uint4* const shared = ptx::shared_array<uint4>(8 * threads);
  shared[int(threadIdx.x) * step] = numbers[int(threadIdx.x) * step];
}

/// Returns what is wrong with a kernel; empty: nothing.
template <class T, class... Parameters, class... Arguments>
std::string wrong(const kernels::Grid& grid, void (*kernel)(T*, Parameters...),
                  Arguments... arguments) {
  cuda_emulation::reset({});
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 8192) == cudaSuccess);
  REQUIRE(kernels::launch(stream, grid, threads, 8192, kernel, static_cast<T*>(memory),
                          arguments...) == cudaSuccess);
  (void)cudaStreamSynchronize(stream);
  std::string violation = cuda_emulation::violation();
  (void)cudaStreamDestroy(stream);
  cuda_emulation::reset({});
  (void)cudaFree(memory);
  return violation;
}

bool says(const std::string& violation, const char* what) {
  CAPTURE(violation);
  return violation.find(what) != std::string::npos;
}

} // namespace

TEST_CASE("what a barrier orders is no race, and what none orders is one") {
  const auto run = [](int distance, Order written, Order read) {
    return wrong(dim3(1), exchange_numbers, distance, written, read);
  };
  CHECK(run(40, Order::block, Order::block) == "");
  CHECK(run(3, Order::warp, Order::warp) == ""); // Of one warp.
  CHECK(run(0, Order::none, Order::none) == ""); // Each its own.
  for (const Order too_weak : {Order::none, Order::exchange, Order::warp}) {
    CHECK(says(run(40, too_weak, Order::block), "with no barrier between"));
    CHECK(says(run(40, Order::block, too_weak), "with no barrier between"));
  }
  // Lanes that exchange values have not exchanged what is in memory.
  CHECK(says(run(3, Order::warp, Order::exchange), "with no barrier between"));
}

TEST_CASE("nothing orders blocks but atomics among each other") {
  CHECK(wrong(dim3(1), write_by_all_blocks) == "");
  CHECK(says(wrong(dim3(2), write_by_all_blocks), "writes what another writes"));
  CHECK(wrong(dim3(3), count) == "");
}

TEST_CASE("the barrier of a cluster orders its blocks, and that of a block does not") {
  const kernels::Grid clusters(dim3(6), 3);
  CHECK(wrong(clusters, tell_next_block, true) == "");
  CHECK(says(wrong(clusters, tell_next_block, false), "with no barrier between"));
}

TEST_CASE("what an asynchronous copy writes is touched when that was waited for") {
  static float in[threads] = {};
  CHECK(wrong(dim3(1), fetch, in, true) == "");
  CHECK(says(wrong(dim3(1), fetch, in, false), "asynchronous copy"));
}

TEST_CASE("sectors and passes over banks are counted for what lanes of a warp touch together") {
  struct Excess {
    double global, shared;
    bool operator==(const Excess&) const = default;
  };
  const auto excess = [](auto kernel, int step) {
    cuda_emulation::TrafficCount count;
    cuda_emulation::count_traffic(&count);
    CHECK(wrong(dim3(1), kernel, step) == "");
    cuda_emulation::count_traffic(nullptr);
    Excess found{};
    REQUIRE(count.all().size() == 2);
    for (const cuda_emulation::Traffic& traffic : count.all()) {
      CHECK(traffic.instructions == 2); // Of two warps.
      (traffic.shared ? found.shared : found.global) = traffic.excess();
    }
    return found;
  };
  CHECK(excess(stride, 1) == Excess{1, 1});
  CHECK(excess(stride, 2) == Excess{2, 2});
  CHECK(excess(stride, 9) == Excess{8, 1}); // Other sectors, but other banks, too.
  CHECK(excess(stride, 32) == Excess{8, 32});
  CHECK(excess(stride_wide, 1) == Excess{1, 1});
  CHECK(excess(stride_wide, 2) == Excess{2, 2});
  CHECK(excess(stride_wide, 8) == Excess{2, 8});
}
