// The tensors of a checkpoint folder that hold the matrices of all experts of a layer.
#pragma once

#include "models/checkpoint/tensor_files.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/families.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

/// Reads stacks: "experts.gate_up_proj", in which an expert's gate and up are one matrix, and
/// "experts.down_proj". With ExpertOrder::below they are [experts, outputs, inputs], the outputs of
/// up below those of gate. With ExpertOrder::in_turn they are [experts, inputs, outputs], and
/// outputs of gate and up take turns; or [experts, outputs, blocks, 16] codes of MXFP4 in S_blocks
/// and [experts, outputs, blocks] exponents in S_scales; and S_bias is [experts, outputs]. Threads:
/// one.
class ExpertStacks {
public:
  /// files: must outlive this object and stay at its address.
  ExpertStacks(TensorFiles& files, ExpertOrder order, int experts)
      : files_(&files), order_(order), experts_(experts) {}

  /// Returns whether the stack of this name is there.
  bool has(const std::string& stack) const;
  /// Returns an expert's matrix, [rows, cols], valid until the stack is released: of `gate`, `up`
  /// or `down`. Blocks stay as they are.
  Result<gpu::HostMatrix> matrix(const std::string& stack, TensorKey key, int rows, int cols);
  /// Returns its bias, [size].
  Result<std::vector<float>> bias(const std::string& stack, TensorKey key, int size);
  void release(const std::string& stack);

private:
  /// The place of an expert's outputs among those of its matrix.
  struct Outputs {
    int first;
    int step;
    int all;
  };
  Outputs outputs_of(TensorKey key, int rows) const;
  Result<gpu::HostMatrix> transposed(const std::string& stack, TensorKey key, int rows, int cols);
  Result<gpu::HostMatrix> blocks(const std::string& stack, TensorKey key, int rows, int cols);
  std::byte* keep(const std::string& stack, std::size_t bytes);
  const std::byte* every(const std::string& stack, const std::byte* from, int step, int rows,
                         std::size_t row_bytes);

  TensorFiles* files_;
  ExpertOrder order_;
  int experts_;
  /// Matrices of each stack that were handed out as copies.
  std::map<std::string, std::vector<std::unique_ptr<std::byte[]>>> kept_;
};

} // namespace paceline::models
