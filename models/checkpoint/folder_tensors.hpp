// The tensors of a checkpoint folder, by the names that the model's family gives them.
#pragma once

#include "models/checkpoint/expert_stacks.hpp"
#include "models/checkpoint/quantized_weights.hpp"
#include "models/checkpoint/row_order.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/families.hpp"

#include <map>
#include <string>
#include <string_view>

namespace paceline::models {

/// Returns the part of a model that a tensor of this name counts as.
ModelPart part_of(std::string_view name);
/// Returns whether a tensor of this name is a weight of a block's linear layer, if it is a matrix.
bool is_block_weight(std::string_view name);

/// Returns whether a tensor of this name is a convolution's, of rank 3.
bool is_convolution(std::string_view name);
/// Returns whether a tensor of this name is a stored copy of what is computed: a mask of what
/// positions see, or the rotary frequencies.
bool is_computed(std::string_view name);

/// Names of the tensors that are in no block, and the prefix of those that are.
struct OuterNames {
  std::string blocks;   ///< Prefix of the blocks' names.
  bool numbered = true; ///< The block's number follows the prefix.
  std::string embedding;
  std::string final_norm;
  std::string head = "lm_head";
  std::string fusion = "";
  std::string fusion_norm = "";
  std::string token_norm = "";
  std::string fusion_out = "";
  std::string clusters = "";
  std::string tap_norm = ""; ///< With a point at its end, the part's number follows.
  std::string positions = "";
  std::string prefix = ""; ///< Of all these but the head.

  static OuterNames of(const ModelNames& names) {
    const std::string prefix = names.prefix;
    OuterNames outer{prefix + names.blocks, true, prefix + names.embedding,
                     prefix + names.final_norm, names.head};
    outer.positions = prefix + names.positions;
    outer.prefix = prefix;
    return outer;
  }
};

/// Returns the names of the family that this folder has.
const ModelNames& names_in(const TensorFiles& files, const Family& family);

class FolderTensors final : public TensorSource {
public:
  /// config: of which the tensors are; it need not outlive this object.
  FolderTensors(TensorFiles files, const BlockTensors& names, const ModelConfig& config,
                OuterNames outer);

  bool has(TensorRole role) const override;
  gpu::DType dtype() const override { return files_.dtype(); }
  Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) override;
  Result<std::vector<float>> bias(TensorKey key, int size) override;
  Result<std::vector<float>> vector(TensorKey key, int size) override;
  Result<std::vector<float>> kernel(TensorKey key, int channels, int taps) override {
    return files_.kernel(name(key), channels, taps);
  }
  bool same(TensorKey a, TensorKey b) const override {
    return files_.same(name_of(a) + ".weight", name_of(b) + ".weight");
  }
  void read_ahead_tables() const override;
  void read_ahead_block(int block) const override;
  void release(TensorKey key) override;
  void ignore(TensorKey key) override { files_.ignore_all(name_of(key) + "."); }
  void ignore_block(int block) override { files_.ignore_all(prefix_of(block)); }
  std::string name(TensorKey key) const override;
  Result<void> check_all_taken() const override { return files_.check_all_taken(); }
  std::uint64_t parameters() const override { return files_.parameters(); }
  std::vector<Stored> tensors() const override;

private:
  std::string prefix_of(int block) const;
  std::string name_of(TensorKey key) const;
  const char* name_in_block(TensorRole role) const;
  const char* name_in_mixer(TensorRole role) const;
  std::string name_of_expert(TensorKey key) const;
  std::string stack_of(TensorKey key) const;
  Result<gpu::HostMatrix> stored(TensorKey key, int rows, int cols);
  bool is_transposed(TensorRole role) const;
  RowOrder order_of(TensorRole role) const {
    const auto at = orders_.find(role);
    return at == orders_.end() ? RowOrder() : at->second;
  }

  TensorFiles files_;
  BlockTensors names_;
  OuterNames outer_;
  ExpertStacks stacks_; ///< Reads the tensors of `files_`, as does:
  QuantizedWeights quantized_;
  std::map<TensorRole, RowOrder> orders_;
  OrderedMatrices ordered_;
};

} // namespace paceline::models
