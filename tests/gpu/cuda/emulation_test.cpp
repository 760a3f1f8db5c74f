// The emulated GPU itself: what kernels get wrong must show on it.
#include "base/bf16.hpp"
#include "cuda_emulation.hpp"
#include "gpu/cuda/launch.hpp"
#include "gpu/cuda/ptx.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <future>
#include <set>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::gpu::cuda;

namespace {

struct Shared {
  float values[64];
};

/// Neighbours' values, with or without a barrier between writing and reading.
void neighbours(float* out, bool waits) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  shared.values[threadIdx.x] = float(threadIdx.x);
  if (waits)
    __syncthreads();
  out[threadIdx.x] = shared.values[(threadIdx.x + 1) % 64];
}

void fetch_neighbours(float* out, const float* in, bool waits) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  ptx::copy_async<8>(&shared.values[2 * threadIdx.x], in + 2 * threadIdx.x, threadIdx.x != 3);
  ptx::commit_copies();
  if (waits)
    ptx::wait_for_copies<0>();
  __syncthreads();
  out[2 * threadIdx.x] = shared.values[2 * threadIdx.x];
  out[2 * threadIdx.x + 1] = shared.values[2 * threadIdx.x + 1];
}

void misalign(float* out) {
  ptx::await_previous();
  ptx::copy_async<16>(&ptx::shared_memory<Shared>().values[1], out);
}

void leave_early(float* out) {
  ptx::await_previous();
  if (threadIdx.x > 40)
    return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

void part_ways(float* out) {
  ptx::await_previous();
  out[threadIdx.x] = threadIdx.x % 2 ? __shfl_xor_sync(~0u, 1.0f, 1) : float(__popc(3));
}

void two_collectives(float* out) {
  ptx::await_previous();
  if (threadIdx.x % 2)
    __syncwarp();
  else
    out[threadIdx.x] = float(__ballot_sync(~0u, 1));
}

void wait_crosswise(float*) {
  ptx::await_previous();
  if (threadIdx.x >= 32 && threadIdx.x < 40)
    __syncwarp();
  else
    __syncthreads();
}

void use_too_much(float* out) {
  ptx::await_previous();
  out[0] = ptx::shared_memory<std::array<Shared, 2>>()[1].values[0];
}

/// Gives its block's number to the next block of the cluster, and reads what it was given.
enum class Lacks { nothing, begin, middle, end };
void pass_on(float* out, Lacks lacks) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<Shared>();
  const unsigned rank = ptx::cluster_rank();
  const unsigned next = (rank + 1) % ptx::cluster_blocks();
  if (lacks != Lacks::begin)
    ptx::cluster_barrier();
  ptx::of_block(shared.values[threadIdx.x], next) = float(rank);
  if (lacks != Lacks::middle)
    ptx::cluster_barrier();
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared.values[threadIdx.x];
  if (lacks == Lacks::middle)
    ptx::cluster_barrier();
  if (lacks == Lacks::end)
    out[0] = ptx::of_block(shared.values[0], next);
}

void some_blocks_wait(float*) {
  ptx::await_previous();
  if (ptx::cluster_rank() > 0)
    ptx::cluster_barrier();
}

void never_wait(float* out) {
  out[threadIdx.x] = 1;
}

void wait_behind_a_barrier(float* out) {
  __syncthreads();
  ptx::await_previous();
  out[threadIdx.x] = 1;
}

void write(float* out) {
  ptx::await_previous();
  out[threadIdx.x] = 7;
}

/// Copies before it waits for the kernel ahead.
void fetch_early(float* out, const float* in) {
  auto& shared = ptx::shared_memory<Shared>();
  ptx::copy_async<4>(&shared.values[threadIdx.x], in + threadIdx.x);
  ptx::commit_copies();
  ptx::await_previous();
  ptx::wait_for_copies<0>();
  out[threadIdx.x] = shared.values[threadIdx.x];
}

/// d += a b, each lane's registers gathered as the PTX ISA's tables name them.
void multiply(float* d, const float* a, const float* b) {
  ptx::await_previous();
  const int group = int(threadIdx.x) >> 2;
  const int place = int(threadIdx.x) % 4;
  const auto pair = [](float low, float high) {
    return std::uint32_t(base::to_bf16(low).bits) | std::uint32_t(base::to_bf16(high).bits) << 16;
  };
  const auto of_a = [&](int row, int column) {
    return pair(a[row * 16 + column], a[row * 16 + column + 1]);
  };
  const auto of_b = [&](int row) { return pair(b[row * 8 + group], b[(row + 1) * 8 + group]); };
  float sums[4];
  for (int i = 0; i < 4; ++i)
    sums[i] = d[(group + (i >= 2 ? 8 : 0)) * 8 + place * 2 + (i & 1)];
  ptx::multiply_add(sums,
                    {of_a(group, place * 2), of_a(group + 8, place * 2), of_a(group, place * 2 + 8),
                     of_a(group + 8, place * 2 + 8)},
                    {of_b(place * 2), of_b(place * 2 + 8)});
  for (int i = 0; i < 4; ++i)
    d[(group + (i >= 2 ? 8 : 0)) * 8 + place * 2 + (i & 1)] = sums[i];
}

/// A GPU of this test's own, with a stream and some memory.
struct RawGpu {
  RawGpu() {
    cuda_emulation::reset({});
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 4096) == cudaSuccess);
    memory = static_cast<float*>(p);
  }
  ~RawGpu() {
    (void)cudaStreamDestroy(stream);
    cuda_emulation::reset({});
    (void)cudaFree(memory);
  }
  template <class... Parameters, class... Arguments>
  cudaError_t run(int threads, void (*kernel)(Parameters...), Arguments... arguments) {
    return run_grid(dim3(1), threads, kernel, arguments...);
  }
  template <class... Parameters, class... Arguments>
  cudaError_t run_grid(const kernels::Grid& grid, int threads, void (*kernel)(Parameters...),
                       Arguments... arguments) {
    const cudaError_t launched =
        kernels::launch(stream, grid, threads, sizeof(Shared), kernel, arguments...);
    return launched ? launched : cudaStreamSynchronize(stream);
  }
  std::vector<float> values(int count) const { return {memory, memory + count}; }

  cudaStream_t stream = nullptr;
  float* memory = nullptr;
};

} // namespace

TEST_CASE("a missing barrier shows as a result that depends on the order of threads") {
  RawGpu gpu;
  std::set<std::vector<bool>> seen;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(gpu.run(64, neighbours, gpu.memory, true) == cudaSuccess);
    for (int t = 0; t < 64; ++t)
      CHECK(gpu.memory[t] == float((t + 1) % 64));
    REQUIRE(gpu.run(64, neighbours, gpu.memory, false) == cudaSuccess);
    std::vector<bool> unset;
    for (const float value : gpu.values(64))
      unset.push_back(std::isnan(value));
    CHECK(std::count(unset.begin(), unset.end(), true) > 10);
    seen.insert(unset);
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("an asynchronous copy arrives when it is waited for, and not before") {
  RawGpu gpu;
  float* in = gpu.memory + 512;
  for (int i = 0; i < 64; ++i)
    in[i] = float(i);
  REQUIRE(gpu.run(32, fetch_neighbours, gpu.memory, in, true) == cudaSuccess);
  for (int i = 0; i < 64; ++i)
    CHECK(gpu.memory[i] == (i / 2 == 3 ? 0.0f : float(i)));
  REQUIRE(gpu.run(32, fetch_neighbours, gpu.memory, in, false) == cudaSuccess);
  for (const float value : gpu.values(64))
    CHECK(std::isnan(value));
}

TEST_CASE("what the hardware leaves undefined loses the device, which says why") {
  const auto says = [](int threads, auto kernel, const char* what) {
    RawGpu gpu;
    CHECK(gpu.run(threads, kernel, gpu.memory) == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure); // Sticky.
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    CAPTURE(cuda_emulation::violation());
    CHECK(cuda_emulation::violation().find(what) != std::string::npos);
  };
  says(64, leave_early, "not all threads reach: 41 at a barrier");
  says(32, part_ways, "wait for each other for ever: 0 at a barrier, 16");
  says(32, two_collectives, "lanes of a warp part");
  says(64, wait_crosswise, "wait for each other for ever");
  says(32, use_too_much, "shared memory of 512 bytes in a launch with 256");
  says(32, misalign, "misaligned");
}

TEST_CASE("blocks of a cluster reach each other's shared memory, and no other block's") {
  RawGpu gpu;
  std::set<std::vector<bool>> seen;
  for (int i = 0; i < 10; ++i) {
    CHECK(gpu.run_grid({dim3(8), 4}, 64, pass_on, gpu.memory, Lacks::nothing) == cudaSuccess);
    for (int t = 0; t < 512; ++t)
      CHECK(gpu.memory[t] == float((t / 64 + 3) % 4));
    CHECK(gpu.run_grid({dim3(8), 4}, 64, pass_on, gpu.memory, Lacks::middle) == cudaSuccess);
    std::vector<bool> unset;
    for (const float value : gpu.values(512))
      unset.push_back(std::isnan(value));
    seen.insert(unset);
  }
  CHECK(seen.size() > 5); // What has been written before it is read depends on the order.
}

TEST_CASE("what a cluster leaves undefined loses the device, which says why") {
  const auto says = [](auto run, const char* what) {
    RawGpu gpu;
    CHECK(run(gpu) == cudaErrorLaunchFailure);
    CAPTURE(cuda_emulation::violation());
    CHECK(cuda_emulation::violation().find(what) != std::string::npos);
  };
  const kernels::Grid grid(dim3(4), 4);
  says([&](RawGpu& gpu) { return gpu.run_grid(grid, 64, pass_on, gpu.memory, Lacks::begin); },
       "may not have begun");
  says([&](RawGpu& gpu) { return gpu.run_grid(grid, 64, pass_on, gpu.memory, Lacks::end); },
       "shared memory");
  says([&](RawGpu& gpu) { return gpu.run_grid(grid, 64, some_blocks_wait, gpu.memory); },
       "barrier of the cluster that not all threads reach: 0 at a barrier, 192 at one");
}

TEST_CASE("an asynchronous copy from or to pageable memory is undefined, one that waits is not") {
  std::array<float, 4> ours{1, 2, 3, 4};
  for (const bool to_device : {true, false})
    for (const bool pinned : {true, false}) {
      RawGpu gpu;
      if (pinned)
        REQUIRE(cudaHostRegister(ours.data(), sizeof ours, 0) == cudaSuccess);
      void* const to = to_device ? gpu.memory : ours.data();
      const void* const from = to_device ? ours.data() : gpu.memory;
      const auto kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
      CHECK(cudaMemcpy(to, from, sizeof ours, kind) == cudaSuccess);
      CHECK(std::memcmp(ours.data(), gpu.memory, sizeof ours) == 0); // NaN, too.
      CHECK(cudaMemcpyAsync(to, from, sizeof ours, kind, gpu.stream) ==
            (pinned ? cudaSuccess : cudaErrorLaunchFailure));
      CHECK(cuda_emulation::violation().empty() == pinned);
      (void)cudaStreamSynchronize(gpu.stream);
      if (pinned)
        REQUIRE(cudaHostUnregister(ours.data()) == cudaSuccess);
    }
}

TEST_CASE("launches that no GPU takes are refused") {
  RawGpu gpu;
  const auto launch = [&](dim3 grid, int threads, std::size_t shared) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(unsigned(threads));
    config.dynamicSmemBytes = shared;
    config.stream = gpu.stream;
    return cudaLaunchKernelEx(&config, leave_early, gpu.memory);
  };
  CHECK(launch(dim3(1), 1056, 0) == cudaErrorInvalidValue);
  CHECK(launch(dim3(1, 65536), 32, 0) == cudaErrorInvalidValue);
  CHECK(launch(dim3(1), 32, 49153) == cudaErrorInvalidValue); // Without having asked.
  CHECK(launch(dim3(1), 32, 49152) == cudaSuccess);
  const auto cluster = [&](unsigned blocks, unsigned together) {
    return gpu.run_grid({dim3(blocks), together}, 32, write, gpu.memory);
  };
  CHECK(cluster(9, 3) == cudaSuccess);
  CHECK(cluster(9, 2) == cudaErrorInvalidValue);
  CHECK(cluster(16, 16) == cudaErrorInvalidValue);
  cuda_emulation::reset({.capability_major = 8});
  CHECK(cluster(9, 3) == cudaErrorInvalidValue);
}

TEST_CASE("launches of one kernel with less and less shared memory leave its bound as it is") {
  RawGpu gpu;
  for (const std::size_t bytes : {70000, 60000, 50000, 0})
    CHECK(kernels::launch(gpu.stream, dim3(1), 32, bytes, write, gpu.memory) == cudaSuccess);
  CHECK(cuda_emulation::violation().empty());
}

TEST_CASE("a kernel's bound of shared memory is not lowered, since other threads launch it, too") {
  RawGpu gpu;
  const auto bound = [](int bytes) {
    return cudaFuncSetAttribute(leave_early, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  CHECK(bound(60000) == cudaSuccess);
  CHECK(bound(60000) == cudaSuccess);
  CHECK(cuda_emulation::violation().empty());
  CHECK(bound(50000) == cudaSuccess);
  CHECK(cuda_emulation::violation().find("lowered") != std::string::npos);
}

TEST_CASE("a kernel that may begin early waits for the one ahead, before any barrier") {
  for (void (*const kernel)(float*) : {never_wait, wait_behind_a_barrier}) {
    RawGpu gpu;
    CHECK(gpu.run(32, kernel, gpu.memory) == cudaErrorLaunchFailure);
    CHECK(cuda_emulation::violation().find("kernel ahead") != std::string::npos);
  }
}

TEST_CASE("a copy that begins early shows if it reads what the kernel ahead writes") {
  for (const bool written : {true, false}) {
    RawGpu gpu;
    std::promise<void> both_enqueued;
    auto enqueued = both_enqueued.get_future();
    REQUIRE(cudaLaunchHostFunc(
                gpu.stream, [](void* until) { static_cast<std::future<void>*>(until)->wait(); },
                &enqueued) == cudaSuccess);
    const float* in = written ? gpu.memory : gpu.memory + 64;
    CHECK(kernels::launch(gpu.stream, dim3(1), 32, 0, write, gpu.memory) == cudaSuccess);
    CHECK(kernels::launch(gpu.stream, dim3(1), 32, sizeof(Shared), fetch_early, gpu.memory + 128,
                          in) == cudaSuccess);
    both_enqueued.set_value();
    CHECK(cudaStreamSynchronize(gpu.stream) == (written ? cudaErrorLaunchFailure : cudaSuccess));
    CHECK(cuda_emulation::violation().empty() == !written);
  }
}

TEST_CASE("what is captured runs when its graph is launched, as often as that is") {
  RawGpu gpu;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  gpu.memory[0] = 0;
  const auto grow = [](float* out) {
    ptx::await_previous();
    *out += threadIdx.x == 0 ? 1.0f : 0.0f;
  };
  REQUIRE(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  void (*const kernel)(float*) = grow;
  CHECK(kernels::launch(gpu.stream, dim3(1), 32, 0, kernel, gpu.memory) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(gpu.stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamSynchronize(gpu.stream) == cudaSuccess);
  CHECK(gpu.memory[0] == 0);
  for (int times = 1; times < 3; ++times) {
    CHECK(cudaGraphLaunch(exec, gpu.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(gpu.stream) == cudaSuccess);
    CHECK(gpu.memory[0] == float(times));
  }
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("who waits or allocates while it captures a stream spoils the capture") {
  for (const bool waits : {true, false}) {
    RawGpu gpu;
    REQUIRE(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    void* p = nullptr;
    CHECK((waits ? cudaStreamSynchronize(gpu.stream) : cudaMalloc(&p, 64)) ==
          cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(gpu.stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamSynchronize(gpu.stream) == cudaSuccess);
  }
}

TEST_CASE("the matrix instruction multiplies matrices") {
  RawGpu gpu;
  std::vector<float> a(16 * 16);
  std::vector<float> b(16 * 8);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = float(i * 37 % 101) - 50;
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = float(i * 53 % 89) - 44;
  for (int i = 0; i < 128; ++i)
    gpu.memory[i] = float(i);
  REQUIRE(gpu.run(32, multiply, gpu.memory, a.data(), b.data()) == cudaSuccess);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = float(row * 8 + column);
      for (int k = 0; k < 16; ++k)
        sum += a.at(row * 16 + k) * b.at(k * 8 + column);
      CHECK(gpu.memory[row * 8 + column] == sum);
    }
}
