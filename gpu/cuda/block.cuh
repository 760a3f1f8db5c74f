// Reductions over a warp and over a block, each in one order that depends only on the block's size.
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

/// Returns std::min by value, since device code has no address of a host's constant.
template <class T>
__device__ __forceinline__ T lower_of(T a, T b) {
  return b < a ? b : a;
}

struct Add {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The greater of two numbers; the other one if one is NaN.
struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    return a > b ? a : b;
  }
};

/// A score and its id. The highest score comes first, among equals the lowest id.
struct Scored {
  double score;
  std::int32_t id; ///< -1: none.
};
__device__ __forceinline__ bool comes_before(Scored a, Scored b) {
  if (a.id < 0 || b.id < 0)
    return b.id < 0 && a.id >= 0;
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}
struct First {
  __device__ __forceinline__ Scored operator()(Scored a, Scored b) const {
    return comes_before(b, a) ? b : a;
  }
};

template <class T>
__device__ __forceinline__ T from_lane_xor(T value, int mask) {
  return __shfl_xor_sync(all_lanes, value, mask);
}
__device__ __forceinline__ Scored from_lane_xor(Scored value, int mask) {
  return {__shfl_xor_sync(all_lanes, value.score, mask),
          __shfl_xor_sync(all_lanes, value.id, mask)};
}

/// Returns the value of the lane `offset` further down, or anything if there is none.
template <class T>
__device__ __forceinline__ T from_lane_below(T value, int offset) {
  return __shfl_down_sync(all_lanes, value, unsigned(offset));
}
__device__ __forceinline__ Scored from_lane_below(Scored value, int offset) {
  return {__shfl_down_sync(all_lanes, value.score, unsigned(offset)),
          __shfl_down_sync(all_lanes, value.id, unsigned(offset))};
}
template <class T>
__device__ __forceinline__ T from_lane(T value, int lane) {
  return __shfl_sync(all_lanes, value, lane);
}
__device__ __forceinline__ Scored from_lane(Scored value, int lane) {
  return {__shfl_sync(all_lanes, value.score, lane), __shfl_sync(all_lanes, value.id, lane)};
}

/// Reduces over a warp; every lane gets the same result.
template <class T, class Operation>
__device__ __forceinline__ T warp_reduce(T value, Operation operation) {
  for (int offset = warp_lanes / 2; offset > 0; offset /= 2)
    value = operation(value, from_lane_xor(value, offset));
  return value;
}

/// Reduces over a block of whole warps; every thread gets the same result. scratch: shared,
/// [block_warps_max], free again when it returns.
template <class T, class Operation>
__device__ __forceinline__ T block_reduce(T value, Operation operation, T* scratch) {
  value = warp_reduce(value, operation);
  const int warps = int(blockDim.x) / warp_lanes;
  if (lane_index() == 0)
    scratch[warp_index()] = value;
  __syncthreads();
  // Every warp does the rest by itself, from the same numbers in the same order.
  const int lane = lane_index();
  T total = scratch[lane < warps ? lane : 0];
  for (int offset = warp_lanes / 2; offset > 0; offset /= 2) {
    const T other = from_lane_below(total, offset);
    if (lane + offset < warps)
      total = operation(total, other);
  }
  total = from_lane(total, 0);
  __syncthreads();
  return total;
}

} // namespace paceline::gpu::cuda::kernels
