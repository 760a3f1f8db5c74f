// Reductions over a warp and over a block, each in one order that only the block's size fixes.
#pragma once

#include "gpu/cuda/launch.hpp"
#include "gpu/cuda/layout.hpp"
#include "gpu/cuda/ptx.cuh"

#include <cstdint>

namespace paceline::gpu::cuda::kernels {

inline constexpr unsigned all_lanes = 0xFFFFFFFFu;
inline constexpr int block_warps_max = 32;

__device__ __forceinline__ int lane_index() {
  return int(threadIdx.x) % warp_lanes;
}
__device__ __forceinline__ int warp_index() {
  return int(threadIdx.x) / warp_lanes;
}

struct Add {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN gives way to a number.
struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The same result on every lane.
template <class T, class Operation>
__device__ __forceinline__ T warp_reduce(T value, Operation operation) {
  for (int offset = warp_lanes / 2; offset > 0; offset /= 2)
    value = operation(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}

/// The same result on every thread. scratch: shared, [block_warps_max], free again when it returns.
/// The block is whole warps.
template <class T, class Operation>
__device__ __forceinline__ T block_reduce(T value, Operation operation, T* scratch) {
  value = warp_reduce(value, operation);
  const int warps = int(blockDim.x) / warp_lanes;
  if (lane_index() == 0)
    scratch[warp_index()] = value;
  __syncthreads();
  T total = scratch[0];
  for (int w = 1; w < warps; ++w)
    total = operation(total, scratch[w]);
  __syncthreads();
  return total;
}

} // namespace paceline::gpu::cuda::kernels
