// Launching a kernel with plain C++: no syntax of nvcc's own, so that a host compiler can emulate.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace paceline::gpu::cuda::kernels {

/// Shared memory that a kernel gets without asking first.
inline constexpr std::size_t shared_bytes_free = 48 << 10;

/// An empty grid is no work. shared_bytes: of ptx::shared_memory.
template <class... Parameters, class... Arguments>
cudaError_t launch(cudaStream_t stream, dim3 grid, int threads, std::size_t shared_bytes,
                   void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return cudaSuccess;
  if (shared_bytes > shared_bytes_free)
    if (const cudaError_t refused = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)))
      return refused;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

inline int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

} // namespace paceline::gpu::cuda::kernels
