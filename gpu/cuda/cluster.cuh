// The blocks that share one row: a cluster, or a single block (ptx::cluster_blocks). They exchange
// through their shared memory: a warp tells all blocks what it has, in a place that is its own, and
// behind a barrier each block has everything in its own memory.
#pragma once

#include "gpu/cuda/block.cuh"

#include <cstddef>

namespace paceline::gpu::cuda::kernels {

/// Threads of a block that is alone, and of one of a cluster: few enough that it finds room for its
/// registers beside other kernels' blocks.
inline constexpr int block_threads_max = 512;
inline constexpr int cluster_block_threads_max = 256;
inline constexpr int cluster_warps_max =
    cluster_blocks_max * cluster_block_threads_max / warp_lanes;
static_assert(cluster_warps_max * warp_lanes >= block_threads_max);

struct ClusterShared {
  static constexpr std::size_t slot_bytes = 48;
  /// What the warps have for a reduction, and for the next one.
  alignas(16) unsigned char slots[2][cluster_warps_max * slot_bytes];
};

/// The threads of the blocks that share a row. All of them call a function together.
class Cluster {
public:
  __device__ explicit Cluster(ClusterShared& shared)
      : shared_(shared), rank_(int(ptx::cluster_rank())), blocks_(int(ptx::cluster_blocks())) {
    if (blocks_ > 1)
      barrier(); // All have begun, so that their memory is there.
  }

  __device__ int threads() const { return blocks_ * int(blockDim.x); }
  __device__ int thread() const { return rank_ * int(blockDim.x) + int(threadIdx.x); }
  __device__ int warps() const { return threads() / warp_lanes; }
  __device__ int warp() const { return thread() / warp_lanes; }
  /// Whether this thread is the one that acts for all.
  __device__ bool leads() const { return thread() == 0; }
  __device__ void barrier() const { ptx::cluster_barrier(); }

  /// Writes a value into the same place of all blocks' shared memory. A warp's lanes call it
  /// together.
  template <class T>
  __device__ void tell(T& place, const T& value) const {
    if (lane_index() < blocks_)
      ptx::of_block(place, unsigned(lane_index())) = value;
  }
  /// Does the same for one thread.
  template <class T>
  __device__ void tell_alone(T& place, const T& value) const {
    for (int b = 0; b < blocks_; ++b)
      ptx::of_block(place, unsigned(b)) = value;
  }
  /// Returns something of the first block's shared memory.
  template <class T>
  __device__ T& of_first(T& shared) const {
    return ptx::of_block(shared, 0);
  }

  /// Reduces over all threads, each of which gets the result. The operation must give the same for
  /// any order, for that depends on the number of blocks.
  template <class T, class Operation>
  __device__ T reduce(T value, Operation operation) {
    static_assert(sizeof(T) <= ClusterShared::slot_bytes);
    // The slots were read before the barrier of the reduction between.
    T* const slots = reinterpret_cast<T*>(shared_.slots[turn_]);
    turn_ ^= 1;
    value = warp_reduce(value, operation);
    tell(slots[warp()], value);
    barrier();
    const int lane = lane_index();
    const int count = lower_of(warps(), warp_lanes);
    T total = slots[lane < count ? lane : 0];
    for (int other = lane + warp_lanes; other < warps(); other += warp_lanes)
      total = operation(total, slots[other]);
    for (int offset = warp_lanes / 2; offset > 0; offset /= 2) {
      const T other = from_lane_below(total, offset);
      if (lane + offset < count)
        total = operation(total, other);
    }
    return from_lane(total, 0);
  }

private:
  ClusterShared& shared_;
  int rank_;
  int blocks_;
  int turn_ = 0;
};

} // namespace paceline::gpu::cuda::kernels
