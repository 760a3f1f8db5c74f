// The tensors of GGUF files, by role.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_names.hpp"
#include "models/checkpoint/row_order.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/families.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace paceline::models {

/// What is read of a file: the model's layers, or the block behind them that drafts.
enum class GgufScope { layers, draft_block };

/// Hands out matrices as they lie in the file. Blocks that no kernel multiplies by are decoded
/// exactly, to f32, which the loader rounds to the type in which the model is computed.
class GgufTensors final : public TensorSource {
public:
  /// config: read_gguf_config(files)
  GgufTensors(std::shared_ptr<const GgufFiles> files, const ModelConfig& config,
              GgufScope scope = GgufScope::layers);

  bool has(TensorRole role) const override;
  /// Returns bf16 if some matrix is of blocks.
  gpu::DType dtype() const override;
  Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) override;
  Result<std::vector<float>> bias(TensorKey key, int size) override;
  Result<std::vector<float>> vector(TensorKey key, int size) override;
  Result<std::vector<float>> kernel(TensorKey key, int channels, int taps) override;
  bool same(TensorKey a, TensorKey b) const override;
  void read_ahead_tables() const override;
  void read_ahead_block(int block) const override;
  void release(TensorKey key) override;
  void ignore(TensorKey key) override;
  void ignore_block(int block) override;
  std::string name(TensorKey key) const override;
  Result<void> check_all_taken() const override;
  std::uint64_t parameters() const override { return parameters_; }
  std::vector<Stored> tensors() const override;

private:
  std::string layer_of(TensorKey key) const;
  std::string layer_of_table(TensorRole role) const;
  bool is_half(TensorKey key) const;
  std::string prefix_of(int block) const;
  bool is_own(std::string_view name) const;
  Result<const GgufTensor*> take(const std::string& name, const std::vector<std::int64_t>& shape);
  gpu::HostMatrix as_stored(const GgufTensor& tensor, const RowOrder& order);
  Result<gpu::HostMatrix> decoded(const GgufTensor& tensor, const RowOrder& order);
  RowOrder order_of(TensorRole role) const {
    const auto at = orders_.find(role);
    return at == orders_.end() ? RowOrder() : at->second;
  }

  std::shared_ptr<const GgufFiles> files_;
  BlockTensors family_;
  int experts_; ///< Experts of a mixture, whose matrices are one tensor.
  /// Key heads of recurrences with gpu::StateUpdate::sum, whose norms have so many rows in the
  /// file; 0: there are none.
  int norm_parts_;
  /// The number in the file of the block that drafts, which is this source's only one; -1: this
  /// source has the layers.
  int draft_block_ = -1;
  bool fused_queries_ = false; ///< Queries, keys and values are one tensor.
  bool fused_gates_ = false;   ///< Gates and ups are one tensor.
  GgufNames names_{"", ""};
  std::map<TensorRole, RowOrder> orders_;
  std::set<std::string, std::less<>> taken_;
  std::set<TensorRole> copies_; ///< Tables of the block that drafts which are the model's.
  std::uint64_t parameters_ = 0;
  OrderedMatrices ordered_; ///< Matrices that were handed out as copies.
};

} // namespace paceline::models
