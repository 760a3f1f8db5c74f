// A checkpoint's tensors by what a model does with them, whatever their file calls them.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::models {

/// What a transformer does with a tensor. Fused ones are others one below the other.
enum class TensorRole {
  embedding,           ///< [vocabulary, hidden]
  head,                ///< [vocabulary, hidden]
  final_norm,          ///< [hidden]
  attention_norm,      ///< [hidden], of what attention reads.
  query,               ///< [heads * head_dim, hidden]
  key,                 ///< [kv_heads * head_dim, hidden]
  value,               ///< [kv_heads * head_dim, hidden]
  query_key_value,     ///< Fused.
  query_norm,          ///< [head_dim], or of all heads together.
  key_norm,            ///< [head_dim], or of all heads together.
  attention_out,       ///< [hidden, heads * head_dim]
  attention_post_norm, ///< [hidden], of what attention gives, before the residual.
  ffn_norm,            ///< [hidden], of what the feed-forward reads.
  gate,                ///< [ffn, hidden]
  up,                  ///< [ffn, hidden]
  gate_up,             ///< Fused.
  down,                ///< [hidden, ffn]
  ffn_post_norm,       ///< [hidden], of what the feed-forward gives, before the residual.
  fusion,              ///< [hidden, FusionConfig::features] of a head on another model,
  fusion_norm,         ///< [hidden], and the norm of what that gives.
};

/// A tensor of a model: its role, and the block that it is in (0 where it is in none).
struct TensorKey {
  TensorRole role;
  int block = 0;
};

/// Where a model's bytes go.
enum class ModelPart { embedding, head, norms, attention, feed_forward, other };

/// Whoever loads a model takes the tensors that it knows; what nobody took is unexpected.
/// Threads: one.
class TensorSource {
public:
  virtual ~TensorSource() = default;

  /// Whether such tensors are stored: a checkpoint has one of two tied tables or both, a family has
  /// the parts of a fused tensor or that one, and may be without a norm.
  virtual bool has(TensorRole role) const = 0;
  /// Of all matrices, or f32 where they differ.
  virtual gpu::DType dtype() const = 0;

  /// A linear layer's weight, [rows, cols] as stored: numbers, or blocks of a microscaling format.
  /// Valid until it is released.
  virtual Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) = 0;
  /// The same layer's bias, [size], converted to f32.
  virtual Result<std::vector<float>> bias(TensorKey key, int size) = 0;
  /// A norm's weight, [size], converted to f32.
  virtual Result<std::vector<float>> norm(TensorKey key, int size) = 0;
  /// Whether both matrices are stored, with the same numbers.
  virtual bool same(TensorKey a, TensorKey b) const = 0;
  /// The embedding and the head, or a block's tensors, are wanted soon: their reading begins, where
  /// it must. A block that is not there is none.
  virtual void read_ahead_tables() const = 0;
  virtual void read_ahead_block(int block) const = 0;
  /// Nobody needs the matrix's bytes any more: they may leave memory.
  virtual void release(TensorKey key) = 0;
  /// The matrix changes nothing here (such as a tied head that is stored all the same).
  virtual void ignore(TensorKey key) = 0;
  /// Nothing of this block is used here, for others load it.
  virtual void ignore_block(int block) = 0;

  /// What the source calls the tensor, for messages.
  virtual std::string name(TensorKey key) const = 0;
  /// An error that names the first tensor nobody took.
  virtual Result<void> check_all_taken() const = 0;
  virtual std::uint64_t parameters() const = 0; ///< Of the tensors taken.

  struct Stored {
    ModelPart part;
    std::string format;     ///< "bf16", "mxfp6"; empty: a scale of another tensor, or a table.
    std::uint64_t bytes;    ///< As stored.
    std::uint64_t elements; ///< A scale has none.
    bool quantized = false; ///< In blocks that it keeps when it is packed.
    /// In blocks of a GGUF, which it keeps where the device takes them and no others are wanted,
    bool blocks = false;
    bool decoded = false;  ///< or that no kernel multiplies by: loaded as plain numbers.
    std::string name = {}; ///< As the source calls it.
  };
  virtual std::vector<Stored> tensors() const = 0; ///< All there are.
};

} // namespace paceline::models
