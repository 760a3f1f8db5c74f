// Owners of CUDA's objects: streams, events, graphs, pools, pinned memory.
#pragma once

#include "gpu/cuda/check.hpp"

#include <cstddef>
#include <utility>

namespace paceline::gpu::cuda {

/// The owner of a T, which `destroy` ends. Errors of that are ignored, since its device is gone
/// then.
template <class T, auto destroy>
class Handle {
public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, T{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_)
      destroy(value_);
  }

  T get() const { return value_; }
  explicit operator bool() const { return value_ != T{}; }

private:
  T value_{};
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphExec = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using Pool = Handle<cudaMemPool_t, cudaMemPoolDestroy>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

// These functions make objects of the current device; they throw CudaError.

inline Stream make_stream(int priority = 0) {
  cudaStream_t stream = nullptr;
  PACELINE_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return Stream(stream);
}

inline Event make_event() {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

/// Allocates host memory that every device reads and writes at the same address.
inline PinnedMemory make_pinned(std::size_t bytes) {
  void* memory = nullptr;
  PACELINE_CUDA_CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  return PinnedMemory(memory);
}

/// A scope in which a device is the calling thread's current one.
class CurrentDevice {
public:
  explicit CurrentDevice(int index) {
    PACELINE_CUDA_CHECK(cudaGetDevice(&before_));
    PACELINE_CUDA_CHECK(cudaSetDevice(index));
  }
  ~CurrentDevice() { (void)cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

private:
  int before_ = 0;
};

} // namespace paceline::gpu::cuda
