// Weight matrices as all CPU kernels read them.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <span>
#include <vector>

namespace paceline::gpu::cpu {

/// Outputs that lie side by side in a packed weight.
inline constexpr int tile_outputs = 16;
/// Inputs of a bf16 weight are padded with zeros to a multiple of this (others: of two).
inline constexpr int tile_inputs = 32;

/// Tiles of 16 outputs, padded with zero outputs, one after the other.
/// f32, f16: a tile is [input][output]; a vector of outputs is one load.
/// bf16: a tile is [input / 2][output][input % 2]; 32 inputs of it are the 1 KiB operand of an AMX
/// product, and a 32-bit lane shifted or masked is one of two inputs of an output in f32.
class PackedWeight final : public Weight {
public:
  static Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts);

  int outputs() const override { return outputs_; }
  int inputs() const override { return inputs_; }
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return memory_->size() + bias_.size() * sizeof(float); }

  int tiles() const { return (outputs_ + tile_outputs - 1) / tile_outputs; }
  int padded_inputs() const { return padded_inputs_; }
  std::size_t tile_bytes() const {
    return std::size_t(padded_inputs_) * tile_outputs * size_of(dtype_);
  }
  const std::byte* tile(int index) const { return data_ + std::size_t(index) * tile_bytes(); }
  /// [outputs], or null where the weight has none.
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  /// All inputs of one output, as f32. values: [inputs]
  void read_output(int output, float* values) const;

private:
  PackedWeight(DType dtype, int outputs, int inputs);
  void fill(const HostMatrix& part, int first_output);

  DType dtype_;
  int outputs_;
  int inputs_;
  int padded_inputs_;
  std::vector<float> bias_;
  std::shared_ptr<Buffer> memory_;
  std::byte* data_ = nullptr;
};

} // namespace paceline::gpu::cpu
