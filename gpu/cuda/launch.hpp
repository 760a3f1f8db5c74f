// Kernel launches in plain C++ without nvcc's syntax, so that a host compiler can emulate them.
#pragma once

#include "base/host_device.hpp"
#include "gpu/cuda/recording.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

namespace paceline::gpu::cuda::kernels {

/// Bytes of shared memory that a kernel gets without a request.
inline constexpr std::size_t shared_bytes_free = 48 << 10;
/// Bytes that a kernel may ask for: what every GPU from compute capability 8.0 on gives a block.
inline constexpr std::size_t shared_bytes_most = 99 << 10;

/// Returns the bytes that the current device gives a block: shared_bytes_most, or more.
inline std::size_t shared_bytes_here() {
  thread_local int asked = -1;
  thread_local std::size_t bytes = shared_bytes_most;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device == asked)
    return bytes;
  int most = 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess)
    bytes = std::size_t(most);
  asked = device;
  return bytes;
}

/// Returns whether kernels of the current device may begin before the one ahead has ended, which
/// they do in their code for 9.0 and later (ptx::await_previous).
inline bool begins_early() {
  constexpr int built[] = {__CUDA_ARCH_LIST__};
  thread_local int asked = -1;
  thread_local bool early = false;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device == asked)
    return early;
  int major = 0;
  int minor = 0;
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  asked = device;
  early = std::any_of(std::begin(built), std::end(built), [&](int architecture) {
    return architecture >= 900 && architecture <= 100 * major + 10 * minor;
  });
  return early;
}

/// A launch. Parameters are compared by ==, which all structs that kernels take have, because
/// padding between members is undefined.
template <class... Parameters>
class KernelCall final : public Call { // NOLINT(cppcoreguidelines-virtual-class-destructor)
public:
  using Kernel = void (*)(Parameters...);

  template <class... Arguments>
  KernelCall(const char* name, dim3 grid, int threads, std::size_t shared_bytes, Kernel kernel,
             Arguments&&... arguments)
      : Call(name), grid_(grid), threads_(threads), shared_bytes_(shared_bytes), kernel_(kernel),
        parameters_(std::forward<Arguments>(arguments)...) {}

  cudaError_t issue(cudaStream_t stream) const override {
    // The bound is the kernel's, whoever launches it: were it what this call needs, a lane would
    // take from another one's launch, which then fails.
    if (shared_bytes_ > shared_bytes_free)
      if (const cudaError_t refused = cudaFuncSetAttribute(
              kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes_here())))
        return refused;
    cudaLaunchConfig_t config{};
    config.gridDim = grid_;
    config.blockDim = dim3(unsigned(threads_));
    config.dynamicSmemBytes = shared_bytes_;
    config.stream = stream;
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = begins_early() ? 1 : 0;
    return std::apply(
        [&](const Parameters&... parameters) {
          return cudaLaunchKernelEx(&config, kernel_, parameters...);
        },
        parameters_);
  }

  bool same(const Call& other) const override {
    const auto* call = dynamic_cast<const KernelCall*>(&other);
    return call && kernel_ == call->kernel_ && grid_.x == call->grid_.x &&
           grid_.y == call->grid_.y && grid_.z == call->grid_.z && threads_ == call->threads_ &&
           shared_bytes_ == call->shared_bytes_ && parameters_ == call->parameters_;
  }

private:
  dim3 grid_;
  int threads_;
  std::size_t shared_bytes_;
  Kernel kernel_;
  std::tuple<Parameters...> parameters_;
};

/// Launches a kernel; an empty grid is no work. shared_bytes: size of ptx::shared_memory.
template <class... Parameters, class... Arguments>
cudaError_t launch(const Queue& queue, dim3 grid, int threads, std::size_t shared_bytes,
                   void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return cudaSuccess;
  return queue.put(KernelCall<Parameters...>(queue.name(), grid, threads, shared_bytes, kernel,
                                             std::forward<Arguments>(arguments)...));
}

PACELINE_HOST_DEVICE inline int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

} // namespace paceline::gpu::cuda::kernels
