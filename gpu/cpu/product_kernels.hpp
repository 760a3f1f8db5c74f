// Base of families with their own products of weights of bf16, or that decode to bf16. AVX-512
// kernels multiply by scaled codes, and the portable family does all else, unless overridden.
#pragma once

#include "gpu/cpu/avx512_codes.hpp"
#include "gpu/cpu/avx512_int8.hpp"
#include "gpu/cpu/avx512_mx.hpp"
#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/kernels.hpp"

namespace paceline::gpu::cpu {

class ProductKernels : public Kernels {
public:
  std::size_t staged_bytes(int rows, const PackedWeight& w) const final {
    if (w.integers())
      return portable_.staged_bytes(rows, w);
    if (takes(w))
      return own_staged_bytes(rows, w);
    return by_codes(w) ? avx512_codes_staged_bytes(rows, w) : portable_.staged_bytes(rows, w);
  }
  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) const final {
    if (w.integers())
      avx512_has_int8() ? avx512_stage_int8(staged, in, w, first, last)
                        : portable_.stage(staged, in, w, first, last);
    else if (takes(w))
      own_stage(staged, in, w, first, last);
    else if (by_codes(w))
      avx512_stage_codes(staged, in, w, first, last);
    else
      portable_.stage(staged, in, w, first, last);
  }
  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, int first, int last,
              bool add, Scratch& scratch) const final {
    if (w.integers())
      avx512_has_int8() ? own_linear_int8(out, staged, w, first, last, add, scratch)
                        : portable_.linear(out, staged, w, first, last, add, scratch);
    else if (takes(w))
      own_linear(out, staged, w, first, last, add, scratch);
    else if (by_codes(w))
      avx512_linear_codes(out, staged, w, first, last, add, scratch);
    else
      portable_.linear(out, staged, w, first, last, add, scratch);
  }
  void rms_norm(float* out, const float* in, const float* weight, int cols,
                float epsilon) const override {
    portable_.rms_norm(out, in, weight, cols, epsilon);
  }
  void layer_norm(float* out, const float* in, const float* weight, const float* bias, int cols,
                  float epsilon) const override {
    portable_.layer_norm(out, in, weight, bias, cols, epsilon);
  }
  void rotate(float* head, const float* cos, const float* sin, int half) const override {
    portable_.rotate(head, cos, sin, half);
  }
  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    portable_.attend(out, q, positions, options, kv, scratch);
  }
  void gate(float* out, const float* gate, const float* up, int n,
            const Gating& gating) const override {
    portable_.gate(out, gate, up, n, gating);
  }
  void activate(float* out, const float* in, int n, Activation activation) const override {
    portable_.activate(out, in, n, activation);
  }
  void soft_cap(float* x, int n, float cap) const override { portable_.soft_cap(x, n, cap); }
  void advance_delta(float* state, const float* key, int key_dim, float* value, int value_dim,
                     float decay, float rate) const override {
    portable_.advance_delta(state, key, key_dim, value, value_dim, decay, rate);
  }
  void advance_sum(float* state, const float* key, int key_dim, const float* change, int value_dim,
                   float decay) const override {
    portable_.advance_sum(state, key, key_dim, change, value_dim, decay);
  }
  void read_state(float* out, int value_dim, const float* state, const float* query,
                  int key_dim) const override {
    portable_.read_state(out, value_dim, state, query, key_dim);
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
  virtual void own_linear(Tensor out, const std::byte* staged, const PackedWeight& w, int first,
                          int last, bool add, Scratch& scratch) const = 0;
  /// Implements `linear` for rows of 8 bits, on processors that have products of bytes.
  virtual void own_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w,
                               int first, int last, bool add, Scratch& scratch) const {
    avx512_linear_int8(out, staged, w, first, last, add, scratch);
  }

  const Kernels& portable_ = highway_kernels();
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
