// What CUDA C++ adds to the language, as a host compiler understands it: the threads of a block are
// fibers (block.hpp). There is no __shared__: kernels of the tree have all their shared memory
// through ptx::shared_memory, so that the emulation knows where it is.
#pragma once

#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/inexact.hpp"
#include "tests/gpu/cuda_emulation/launch.hpp"
#include <cuda_runtime_api.h>

#include <bit>
#include <cstring>
#include <math.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH_LIST__ 800, 900

inline void __syncthreads() {
  cuda_emulation::barrier();
}
inline void __syncwarp(unsigned lanes = ~0u) {
  const int nothing = 0;
  (void)cuda_emulation::exchange("__syncwarp", lanes, nothing);
}

template <class T>
T __shfl_sync(unsigned lanes, T value, int from) {
  return cuda_emulation::exchange("__shfl_sync", lanes, value)[from % 32];
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int mask) {
  const auto all = cuda_emulation::exchange("__shfl_xor_sync", lanes, value);
  return all[(cuda_emulation::lane() ^ mask) % 32];
}
template <class T>
T __shfl_up_sync(unsigned lanes, T value, unsigned delta) {
  const auto all = cuda_emulation::exchange("__shfl_up_sync", lanes, value);
  const int from = cuda_emulation::lane() - int(delta);
  return from >= 0 ? all[from] : value;
}
template <class T>
T __shfl_down_sync(unsigned lanes, T value, unsigned delta) {
  const auto all = cuda_emulation::exchange("__shfl_down_sync", lanes, value);
  const int from = cuda_emulation::lane() + int(delta);
  return from < 32 ? all[from] : value;
}
inline unsigned __ballot_sync(unsigned lanes, int predicate) {
  const auto all = cuda_emulation::exchange("__ballot_sync", lanes, predicate);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    votes |= unsigned(all[lane] != 0) << lane;
  return votes;
}
inline int __any_sync(unsigned lanes, int predicate) {
  return __ballot_sync(lanes, predicate) != 0;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned((static_cast<unsigned long long>(a) * b) >> 32);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(unsigned(x));
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(unsigned(x)) + 1;
}

// Atomic among the fibers of one stream's thread; no kernel of the tree relies on more.
template <class T, class Change>
__attribute__((no_sanitize("thread"))) T atomically(T* at, Change change) {
  cuda_emulation::touch(at, sizeof *at, cuda_emulation::Access::atomic, nullptr);
  const T before = *at;
  *at = change(before);
  return before;
}
template <class T>
T atomicAdd(T* at, T value) {
  return atomically(at, [value](T before) { return T(before + value); });
}
template <class T>
T atomicExch(T* at, T value) {
  return atomically(at, [value](T) { return value; });
}
template <class T>
T atomicMin(T* at, T value) {
  return atomically(at, [value](T before) { return value < before ? value : before; });
}
template <class T>
T atomicMax(T* at, T value) {
  return atomically(at, [value](T before) { return before < value ? value : before; });
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
