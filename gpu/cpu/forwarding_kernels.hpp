// Base of families that have some kernels of their own.
#pragma once

#include "gpu/cpu/kernels.hpp"

namespace paceline::gpu::cpu {

/// A family whose kernels, but for those that are overridden, are another one's.
class ForwardingKernels : public Kernels {
public:
  /// to: outlives this.
  explicit ForwardingKernels(const Kernels& to) : to_(to) {}

  double multiply_adds(int rounds) const override { return to_.multiply_adds(rounds); }
  std::size_t staged_bytes(int rows, const PackedWeight& w) const override {
    return to_.staged_bytes(rows, w);
  }
  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
             int last) const override {
    to_.stage(staged, in, w, first, last);
  }
  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
              Scratch& scratch) const override {
    to_.linear(out, staged, w, run, add, scratch);
  }
  void rms_norm(float* out, const float* in, const float* weight, int cols,
                float epsilon) const override {
    to_.rms_norm(out, in, weight, cols, epsilon);
  }
  void layer_norm(float* out, const float* in, const float* weight, const float* bias, int cols,
                  float epsilon) const override {
    to_.layer_norm(out, in, weight, bias, cols, epsilon);
  }
  void rotate(float* head, const float* cos, const float* sin, int half) const override {
    to_.rotate(head, cos, sin, half);
  }
  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    to_.attend(out, q, positions, options, kv, scratch);
  }
  void gate(float* out, const float* gate, const float* up, int n,
            const Gating& gating) const override {
    to_.gate(out, gate, up, n, gating);
  }
  void activate(float* out, const float* in, int n, Activation activation) const override {
    to_.activate(out, in, n, activation);
  }
  void soft_cap(float* x, int n, float cap) const override { to_.soft_cap(x, n, cap); }
  void advance_delta(float* state, const float* key, int key_dim, float* value, int value_dim,
                     float decay, float rate) const override {
    to_.advance_delta(state, key, key_dim, value, value_dim, decay, rate);
  }
  void advance_sum(float* state, const float* key, int key_dim, const float* change, int value_dim,
                   float decay) const override {
    to_.advance_sum(state, key, key_dim, change, value_dim, decay);
  }
  void read_state(float* out, int value_dim, const float* state, const float* query,
                  int key_dim) const override {
    to_.read_state(out, value_dim, state, query, key_dim);
  }

protected:
  const Kernels& to_;
};

} // namespace paceline::gpu::cpu
