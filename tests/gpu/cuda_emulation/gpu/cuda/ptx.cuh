// The twin of gpu/cuda/ptx.cuh for a host compiler: the same functions, in plain C++.
#pragma once

#include "base/bf16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

namespace paceline::gpu::cuda::ptx {

template <class T>
T& shared_memory() {
  return *reinterpret_cast<T*>(cuda_emulation::shared_memory(sizeof(T)));
}

template <class T>
T* shared_array(int count) {
  return reinterpret_cast<T*>(cuda_emulation::shared_memory(std::size_t(count) * sizeof(T)));
}

inline void let_next_begin() {}
inline void await_previous() {
  cuda_emulation::await_previous();
}

inline unsigned cluster_rank() {
  return cuda_emulation::cluster_rank();
}
inline unsigned cluster_blocks() {
  return cuda_emulation::cluster_blocks();
}
inline void cluster_barrier() {
  cuda_emulation::cluster_barrier();
}
template <class T>
T& of_block(T& shared, unsigned rank) {
  return *reinterpret_cast<T*>(cuda_emulation::of_block(&shared, rank));
}

inline void touch(const std::uint32_t*) {}

inline std::uint32_t round_pair(float first, float second) {
  return std::uint32_t(base::to_bf16(first).bits) | std::uint32_t(base::to_bf16(second).bits) << 16;
}

/// Adds products to a sum: all are shifted to the largest one's exponent and cut off three bits
/// behind an f32's last, added, and cut off to f32.
inline float add_truncated(float sum, const double (&products)[8]) {
  constexpr int kept = 23 + 3; // Bits behind the largest one's first.
  const auto exponent = [](double x) { return int(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7FF); };
  double exact = double(sum);
  int largest = exponent(double(sum));
  for (const double product : products) {
    largest = std::max(largest, exponent(product));
    exact += product;
  }
  if (largest == 0 || largest == 0x7FF)
    return float(exact); // Zeros, or what is not a number.
  const double scale = std::ldexp(1.0, kept + 1023 - largest);
  auto whole = std::int64_t(double(sum) * scale);
  for (const double product : products)
    whole += std::int64_t(product * scale);
  const int bits = int(std::bit_width(std::uint64_t(whole < 0 ? -whole : whole)));
  const int cut = std::max(bits - 24, 0);
  return float(double(whole / (std::int64_t(1) << cut)) *
               std::ldexp(1.0, largest - 1023 - kept + cut));
}

/// Who holds which element is written down once more here, from the PTX ISA's section on
/// mma.m16n8k16, and not shared with the kernels: a lane's group is lane / 4, its place in it
/// lane % 4. How the products of an element are added is not documented; it is done as Fasi et al.
/// (2021, "Numerical behavior of NVIDIA tensor cores") found: eight at a time (add_truncated).
inline void multiply_add(float (&d)[4], uint4 a, uint2 b) {
  struct Registers {
    std::uint32_t a[4];
    std::uint32_t b[2];
    float d[4];
  };
  const auto all = cuda_emulation::exchange(
      "mma.sync", ~0u, Registers{{a.x, a.y, a.z, a.w}, {b.x, b.y}, {d[0], d[1], d[2], d[3]}});
  bool first = false;
  auto* results = reinterpret_cast<float(*)[4]>(cuda_emulation::warp_result(first));
  if (first) {             // Of its warp's lanes: it works for all.
    double rows[16][16];   // Of a.
    double columns[16][8]; // Of b: [k][column], for all columns go along together.
    for (int lane = 0; lane < 32; ++lane) {
      const Registers mine = all[lane];
      const int group = lane / 4;
      const int place = lane % 4;
      for (int half = 0; half < 2; ++half) {
        const auto value = [half](std::uint32_t word) {
          return double(base::to_float(base::bf16{std::uint16_t(word >> (16 * half))}));
        };
        for (int i = 0; i < 4; ++i)
          rows[group + i % 2 * 8][2 * place + half + i / 2 * 8] = value(mine.a[i]);
        for (int i = 0; i < 2; ++i)
          columns[2 * place + half + i * 8][group] = value(mine.b[i]);
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      const Registers mine = all[lane];
      for (int i = 0; i < 4; ++i) {
        const double* const row = rows[lane / 4 + i / 2 * 8];
        const int column = 2 * (lane % 4) + i % 2;
        float sum = mine.d[i];
        for (int k = 0; k < 16; k += 8) {
          double products[8];
          for (int j = 0; j < 8; ++j)
            products[j] = row[k + j] * columns[k + j][column];
          sum = add_truncated(sum, products);
        }
        results[lane][i] = sum;
      }
    }
  }
  for (int i = 0; i < 4; ++i)
    d[i] = results[cuda_emulation::lane()][i];
}

inline std::uint32_t multiply_add_pairs(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d = 0;
  for (int half = 0; half < 32; half += 16) {
    const auto value = [half](std::uint32_t pair) {
      return double(base::to_float(base::bf16{std::uint16_t(pair >> half)}));
    };
    // Rounded twice, which shows only where f32 does not hold the whole result.
    const auto sum = float(value(a) * value(b) + value(c));
    d |= std::uint32_t(base::to_bf16(sum).bits) << half;
  }
  return d;
}

inline float half_to_float(std::uint32_t half) {
  return base::to_float(std::bit_cast<base::f16>(std::uint16_t(half)));
}

template <std::uint32_t mask, std::uint32_t under>
std::uint32_t bits_over(std::uint32_t from) {
  return (from & mask) | under;
}

inline std::uint32_t select_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t from = a | std::uint64_t(b) << 32;
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i)
    out |= std::uint32_t(from >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return out;
}

template <int bytes>
void copy_async(void* shared, const void* global, bool wanted = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  cuda_emulation::copy_async(shared, wanted ? global : nullptr, bytes);
}

inline void commit_copies() {
  cuda_emulation::commit_copies();
}

template <int pending>
void wait_for_copies() {
  cuda_emulation::wait_for_copies(pending);
}

} // namespace paceline::gpu::cuda::ptx
