// Base of families with their own products of weights of bf16, or that decode to bf16. AVX-512
// kernels multiply by scaled codes, and the portable family does all else, unless overridden.
#pragma once

#include "gpu/cpu/avx512_codes.hpp"
#include "gpu/cpu/avx512_int8.hpp"
#include "gpu/cpu/avx512_mx.hpp"
#include "gpu/cpu/forwarding_kernels.hpp"
#include "gpu/cpu/highway.hpp"

namespace paceline::gpu::cpu {

class ProductKernels : public ForwardingKernels {
public:
  ProductKernels() : ForwardingKernels(highway_kernels()) {}
  std::size_t staged_bytes(int rows, const PackedWeight& w) const final {
    if (w.integers())
      return to_.staged_bytes(rows, w);
    if (takes(w))
      return own_staged_bytes(rows, w);
    return by_codes(w) ? avx512_codes_staged_bytes(rows, w) : to_.staged_bytes(rows, w);
  }
  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) const final {
    if (w.integers())
      avx512_has_int8() ? avx512_stage_int8(staged, in, w, first, last)
                        : to_.stage(staged, in, w, first, last);
    else if (takes(w))
      own_stage(staged, in, w, first, last);
    else if (by_codes(w))
      avx512_stage_codes(staged, in, w, first, last);
    else
      to_.stage(staged, in, w, first, last);
  }
  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
              Scratch& scratch) const final {
    if (w.integers())
      avx512_has_int8() ? own_linear_int8(out, staged, w, run, add, scratch)
                        : to_.linear(out, staged, w, run, add, scratch);
    else if (takes(w))
      own_linear(out, staged, w, run, add, scratch);
    else if (by_codes(w))
      avx512_linear_codes(out, staged, w, run, add, scratch);
    else
      to_.linear(out, staged, w, run, add, scratch);
  }

protected:
  /// Returns whether the family multiplies by `w` itself.
  virtual bool takes(const PackedWeight& w) const {
    return w.format() == WeightFormat::bf16 || (is_mx(w.format()) && highway_decode_blocks());
  }
  static bool by_codes(const PackedWeight& w) {
    return has_scaled_codes(w.format()) && avx512_has_codes();
  }
  /// Implement the functions of Kernels for such weights.
  virtual std::size_t own_staged_bytes(int rows, const PackedWeight& w) const = 0;
  virtual void own_stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
                         int last) const = 0;
  virtual void own_linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                          bool add, Scratch& scratch) const = 0;
  /// Implements `linear` for rows of 8 bits, on processors that have products of bytes.
  virtual void own_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w,
                               TileRun run, bool add, Scratch& scratch) const {
    avx512_linear_int8(out, staged, w, run, add, scratch);
  }
};

/// Tiles of bf16 numbers, one after another, from tile `first` on: a weight's own, or decoded ones.
struct Bf16Tiles {
  const std::byte* data = nullptr;
  int first = 0;
  std::size_t tile_bytes = 0;

  const std::byte* tile(int index) const { return data + std::size_t(index - first) * tile_bytes; }
};

/// Returns the tiles of a bf16 weight.
inline Bf16Tiles tiles_of(const PackedWeight& w) {
  return {w.tile(0), 0, w.tile_bytes()};
}

/// Decodes tiles [first, last) of a microscaling weight to `to`.
inline Bf16Tiles decode_tiles(const PackedWeight& w, int first, int last, std::byte* to) {
  for (int tile = first; tile < last; ++tile) {
    DecodeBlocks* const fastest = w.moderate(tile) ? avx512_decode_blocks() : nullptr;
    DecodeBlocks* const decode = fastest ? fastest : highway_decode_blocks();
    decode(w, tile, 0, w.blocks(), to + std::size_t(tile - first) * w.bf16_tile_bytes());
  }
  return {to, first, w.bf16_tile_bytes()};
}

} // namespace paceline::gpu::cpu
