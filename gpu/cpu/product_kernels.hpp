// A family that brings its own products of bf16 weights: all else is the portable family's, unless
// it says otherwise.
#pragma once

#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/kernels.hpp"

namespace paceline::gpu::cpu {

/// Products of other weights come here too: an implementation passes them on to `portable_`.
class ProductKernels : public Kernels {
public:
  void rms_norm(float* out, const float* in, const float* weight, int cols,
                float epsilon) const override {
    portable_.rms_norm(out, in, weight, cols, epsilon);
  }
  void rotate(float* head, const float* cos, const float* sin, int half) const override {
    portable_.rotate(head, cos, sin, half);
  }
  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    portable_.attend(out, q, positions, options, kv, scratch);
  }
  void gate(float* out, const float* gate, const float* up, int n,
            Activation activation) const override {
    portable_.gate(out, gate, up, n, activation);
  }
  void soft_cap(float* x, int n, float cap) const override { portable_.soft_cap(x, n, cap); }

protected:
  const Kernels& portable_ = highway_kernels();
};

} // namespace paceline::gpu::cpu
