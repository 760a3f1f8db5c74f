// Instructions that have no name in CUDA C++, and the only inline assembly. The emulation in
// tests/gpu/cuda_emulation has a twin of this header for a host compiler.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

namespace paceline::gpu::cuda::ptx {

/// Returns a block's shared memory, of the size that the launch gave, as one struct. Its initial
/// contents are undefined.
template <class T>
__device__ __forceinline__ T& shared_memory() {
  extern __shared__ __align__(16) unsigned char paceline_shared_memory[];
  return *reinterpret_cast<T*>(paceline_shared_memory);
}

/// Does the same for `count` of them.
template <class T>
__device__ __forceinline__ T* shared_array([[maybe_unused]] int count) {
  return &shared_memory<T>();
}

/// Computes d += a b for a: [16][16] and b: [16][8], both bf16, and d: [16][8], f32. With g = lane
/// / 4 and t = lane % 4 a lane holds (PTX ISA, mma.m16n8k16):
///   a: x = (g, 2t), (g, 2t + 1); y = the same of row g + 8; z, w = these two at columns + 8;
///   b: x = (2t, g), (2t + 1, g); y = the same at rows + 8;
///   d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
/// The lower half of a word is the first of a pair.
__device__ __forceinline__ void multiply_add(float (&d)[4], uint4 a, uint2 b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

/// Returns a b + c for each of two bf16, rounded once. Subnormal numbers are not flushed to zero.
__device__ __forceinline__ std::uint32_t multiply_add_pairs(std::uint32_t a, std::uint32_t b,
                                                            std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

/// Returns the number that a half has, given in the lowest bits.
__device__ __forceinline__ float half_to_float(std::uint32_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(std::uint16_t(half)));
  return value;
}

/// Returns the bits of `from` that the mask has, over those of `under`, in one instruction, for
/// which the compiler takes two if both are constants.
template <std::uint32_t mask, std::uint32_t under>
__device__ __forceinline__ std::uint32_t bits_over(std::uint32_t from) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(from), "n"(mask), "r"(under));
  return out;
}

/// Returns the bytes of a (0 to 3) and of b (4 to 7) whose numbers the selector's lowest four
/// digits are, from its lowest on. The digits are below 8.
__device__ __forceinline__ std::uint32_t select_bytes(std::uint32_t a, std::uint32_t b,
                                                      std::uint32_t selector) {
  return __byte_perm(a, b, selector);
}

/// Begins to copy `bytes` (4, 8 or 16, both sides aligned to them) from global to shared memory, or
/// zeros if the source is not wanted, which is not read then.
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool wanted = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int size = wanted ? bytes : 0;
  if constexpr (bytes == 16) // Bypasses the first-level cache, where it would not be read again.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(global), "r"(size)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                 :
                 : "r"(to), "l"(global), "r"(size), "n"(bytes)
                 : "memory");
}

/// Closes a group of this thread's copies; an empty group counts, too.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}

/// Waits until all of this thread's groups but the last `pending` have arrived. Other threads see
/// them after a barrier that follows.
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

/// Lets the next kernel of the stream begin once all blocks of this one have called it or ended
/// (CUDA's programmatic dependent launch). Compute capabilities below 9.0 begin kernels in turn.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

/// Waits until all kernels before this one in the stream have ended and their writes are seen.
/// Every thread of every kernel calls it once, since a kernel that ends has to mean that those
/// before it have. Before the call a kernel may read what no kernel writes: weights, and the
/// arguments that were copied ahead of the piece. It uses no barrier before.
__device__ __forceinline__ void await_previous() {
  let_next_begin();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/// The blocks of a cluster run together and reach each other's shared memory. This block's number
/// among them, and how many there are: without a cluster, and on compute capabilities below 9.0, a
/// block is alone.
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
__device__ __forceinline__ unsigned cluster_blocks() {
  unsigned blocks = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
  return blocks;
}

/// Waits for all threads of the cluster; what they wrote, in any memory, is seen then.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  if (cluster_blocks() > 1) {
    asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" : : : "memory");
    return;
  }
#endif
  __syncthreads();
}

/// Returns where something of this block's shared memory lies in another block's. All blocks must
/// have begun, and none may end before a barrier that follows the access.
template <class T>
__device__ __forceinline__ T& of_block(T& shared, [[maybe_unused]] unsigned rank) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&shared), "r"(rank));
  return *reinterpret_cast<T*>(there);
#else
  return shared;
#endif
}

/// Reads a word for whoever wants it next.
__device__ __forceinline__ void touch(const std::uint32_t* at) {
  asm volatile("prefetch.global.L1 [%0];" : : "l"(at));
}

/// Returns two numbers rounded to bf16, the first in the lower half.
__device__ __forceinline__ std::uint32_t round_pair(float first, float second) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

} // namespace paceline::gpu::cuda::ptx
