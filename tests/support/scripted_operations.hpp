// What a scripted model asks of a device: drawing and judging, and columns of its rows. Tests
// derive from it to watch both, or to break them.
#pragma once

#include "gpu/operations.hpp"

#include <cstdlib>
#include <limits>

namespace paceline::testing {

/// One rank. A scripted model needs none of the operations below.
class ScriptedOperations : public gpu::Operations {
public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void barrier() override {}

  void embed(gpu::Tensor, const gpu::Weight&, std::span<const TokenId>, float) override {
    std::abort();
  }
  void embed_add(gpu::Tensor, const gpu::Weight&, std::span<const std::int32_t>) override {
    std::abort();
  }
  void rms_norm(gpu::Tensor, gpu::Tensor, const float*, float) override { std::abort(); }
  void rms_norm_add(gpu::Tensor, gpu::Tensor, const float*, float, float) override { std::abort(); }
  void layer_norm(gpu::Tensor, gpu::Tensor, const float*, const float*, float) override {
    std::abort();
  }
  void linear(gpu::Tensor, gpu::Tensor, const gpu::Weight&) override { std::abort(); }
  void linear_add(gpu::Tensor, gpu::Tensor, const gpu::Weight&) override { std::abort(); }
  void rope_store(gpu::Tensor, int, const gpu::RopeTable&, const gpu::HeadNorms&,
                  const gpu::RowMap&, const gpu::KvLayer&) override {
    std::abort();
  }
  void attention(gpu::Tensor, gpu::Tensor, int, const gpu::AttentionOptions&, const gpu::RowMap&,
                 const gpu::KvLayer&) override {
    std::abort();
  }
  void gate(gpu::Tensor, gpu::Tensor, const gpu::Gating&) override { std::abort(); }
  void activate(gpu::Tensor, gpu::Tensor, gpu::Activation) override { std::abort(); }
  void soft_cap(gpu::Tensor, float) override { std::abort(); }
  void gather(gpu::Tensor, gpu::Tensor, std::span<const std::int32_t>) override { std::abort(); }
  void scatter(gpu::Tensor, gpu::Tensor, std::span<const std::int32_t>) override { std::abort(); }
  void route(const gpu::Routing&, gpu::Tensor, const float*, const gpu::RouterOptions&) override {
    std::abort();
  }
  void expert_linear(gpu::Tensor, gpu::Tensor, gpu::RoutedRows, const gpu::Weight&,
                     const gpu::Routing&) override {
    std::abort();
  }
  void combine(gpu::Tensor, gpu::Tensor, const gpu::Routing&, bool) override { std::abort(); }
  void spread(gpu::Tensor, gpu::Tensor, const gpu::Routing&) override { std::abort(); }
  void scale_by_sigmoid(gpu::Tensor, gpu::Tensor) override { std::abort(); }
  void recurrence(gpu::Tensor, gpu::Tensor, gpu::Tensor, const gpu::Recurrence&,
                  std::span<const gpu::StateRun>, const gpu::StateLayer&) override {
    std::abort();
  }
  void short_convolution(gpu::Tensor, gpu::Tensor, const gpu::ShortConvolution&,
                         std::span<const gpu::StateRun>, const gpu::StateLayer&) override {
    std::abort();
  }
  void gated_rms_norm(gpu::Tensor, gpu::Tensor, const gpu::GatedNorm&) override { std::abort(); }
  void gather_columns(gpu::Tensor out, gpu::Tensor in, const float* columns) override {
    for (int r = 0; r < out.rows; ++r)
      for (int i = 0; i < out.cols; ++i)
        out.row(r)[i] =
            columns[i] < 0 ? -std::numeric_limits<float>::infinity() : in.row(r)[int(columns[i])];
  }
};

} // namespace paceline::testing
