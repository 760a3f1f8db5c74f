// What the emulated runtime's sources share.
#pragma once

#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <bitset>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cuda_emulation {

inline constexpr int multiprocessors = 132; ///< Of each GPU, as an H100 has them.
using MultiprocessorSet = std::bitset<multiprocessors>;

struct State {
  std::mutex mutex;
  Options options;
  std::vector<bool> lost{false}; ///< By device.
  std::string violation;
  std::map<const void*, int> shared_allowed; ///< Most bytes of shared memory, by kernel.
  std::atomic<std::size_t> launches{0};
  std::atomic<std::size_t> cluster_launches{0};
  std::array<std::atomic<std::size_t>, multiprocessors> kernels_on{};
  std::atomic<std::size_t> graphs_made{0};
  std::atomic<std::size_t> graph_launches{0};
  std::atomic<unsigned> grids{0}; ///< Run.
  std::atomic<std::size_t> allocations{0};
};
State& state();

/// The bytes of shared memory that a block may have, by compute capability, as the CUDA C++
/// Programming Guide's table of technical specifications lists them.
int shared_most(const Options& options);

/// Whether that is memory of a device, or pinned.
bool is_allocated(const void* p);

int current_device();
bool is_lost(int device);
/// Loses the device for what the hardware leaves undefined.
void fail(int device, const std::string& violation);
/// Remembers an error for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);
/// cudaSuccess, or why nothing can be done on the current device.
cudaError_t usable();

/// cudaSuccess, or what a call gives that this thread may not make while it captures a stream.
cudaError_t no_capture();

/// Makes a stream of the device whose kernels have these multiprocessors.
cudaStream_t make_stream(int device, MultiprocessorSet multiprocessors);
/// Whether the stream is there.
bool is_stream(cudaStream_t stream);

struct Task {
  std::function<void()> run;
  /// A kernel's that may begin early: does what it does before it waits for the kernel ahead of it.
  std::function<void()> early;

  Task() = default;
  template <class Work>
  Task(Work work) : run(std::move(work)) {} // NOLINT(google-explicit-constructor)
};

/// Puts work behind what is in the stream, or into what is captured of it; null: the device's
/// default one.
void append(cudaStream_t stream, Task work);
int device_of(cudaStream_t stream);
/// Waits until all that was in the stream is done.
void drain(cudaStream_t stream);
/// Waits for all streams of the device.
void drain_device(int device);

} // namespace cuda_emulation
