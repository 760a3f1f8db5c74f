// Functions whose results the hardware does not promise to the last bit. CUDA's differ from the
// host's by a unit in the last place (CUDA C++ Programming Guide, "Mathematical Functions"), so
// here some do, drawn by the argument and a seed: who expects a GPU's bits to be a processor's sees
// it.
#pragma once

#include "tests/gpu/cuda_emulation/block.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace cuda_emulation {

/// Returns `exact` or a neighbour of it, always the same for one argument.
template <class T>
T inexact(T argument, T exact) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (argument == 0 || !std::isnormal(exact))
    return exact;
  const std::uint64_t mixed =
      (std::bit_cast<Bits>(argument) ^ std::uint64_t(rounding_seed()) << 32) * 0x9E3779B97F4A7C15u;
  switch (mixed >> 62) {
  case 0: return std::nextafter(exact, -std::numeric_limits<T>::infinity());
  case 1: return std::nextafter(exact, std::numeric_limits<T>::infinity());
  default: return exact;
  }
}

} // namespace cuda_emulation

// Kernels find these before the host's of the same names.
namespace paceline::gpu::cuda {

inline float expf(float x) {
  return cuda_emulation::inexact(x, ::expf(x));
}
inline float log1pf(float x) {
  return cuda_emulation::inexact(x, ::log1pf(x));
}
inline float tanhf(float x) {
  return std::clamp(cuda_emulation::inexact(x, ::tanhf(x)), -1.0f, 1.0f);
}
inline float logf(float x) {
  return cuda_emulation::inexact(x, ::logf(x));
}
inline double log(double x) {
  return cuda_emulation::inexact(x, ::log(x));
}

} // namespace paceline::gpu::cuda
