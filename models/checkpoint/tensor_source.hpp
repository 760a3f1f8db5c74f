// A checkpoint's tensors by their role in a model, whatever their file calls them.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::models {

/// The role of a tensor in a transformer. A fused tensor is several others one below the other.
enum class TensorRole {
  embedding,           ///< [vocabulary, hidden]
  positions,           ///< [PositionTable::rows, hidden]
  head,                ///< [vocabulary, hidden]
  final_norm,          ///< [hidden]
  attention_norm,      ///< [hidden], for the input of attention.
  query,               ///< [heads * head_dim, hidden]
  key,                 ///< [kv_heads * head_dim, hidden]
  value,               ///< [kv_heads * head_dim, hidden]
  query_key_value,     ///< Fused queries, keys and values.
  query_norm,          ///< [head_dim], or one weight for all heads.
  key_norm,            ///< [head_dim], or one weight for all heads.
  sinks,               ///< [heads], attention's.
  mixer_in,            ///< Of a recurrent layer, [outputs, hidden]: a short convolution's gates and
                       ///< values; or gates, values, keys, queries and rates of a recurrence with
                       ///< gpu::StateUpdate::sum.
  mixer_out,           ///< [hidden, values], of a recurrent layer.
  kernel,              ///< [channels, taps], of a recurrent layer, and [channels] of biases.
  speed,               ///< [value_heads], below 0: gpu::Recurrence::speeds, as the next:
  offset,              ///< [value_heads]
  skip,                ///< [value_heads]
  recurrence_norm,     ///< [value_dim], or of all values.
  delta_in,            ///< [channels, hidden], of gpu::StateUpdate::delta, as the next:
  delta_gate,          ///< [values, hidden], of which its output's gates are made.
  delta_strength,      ///< [value_heads, hidden], of which rates b are made.
  delta_rate,          ///< [value_heads, hidden], of which decays are made.
  delta_joined,        ///< [channels + values, hidden]: each key head's own part of in and gate.
  delta_rates,         ///< [rates, hidden]: each key head's own part of strength and rate.
  attention_out,       ///< [hidden, heads * head_dim]
  attention_post_norm, ///< [hidden], for the output of attention, before the residual.
  ffn_norm,            ///< [hidden], for the input of the feed-forward.
  router,              ///< [experts, hidden], of a mixture of experts.
  router_norm,         ///< [hidden], for the input of a router that is apart
                       ///< (MixtureConfig::apart), as the next:
  expert_scales,       ///< [experts], factors of the weights of those chosen.
  expert_norm,         ///< [hidden], for the input of the experts.
  expert_post_norm,    ///< [hidden], for their output.
  shared_post_norm,    ///< [hidden], for the shared expert's output.
  choice_bias,         ///< [experts], added where experts are chosen (gpu::Operations::route).
  shared_gate,         ///< [1, hidden], of which the shared expert's output gets its factor.
  gate,                ///< [ffn, hidden], of a dense block or of an expert, as the next ones.
  up,                  ///< [ffn, hidden]
  gate_up,             ///< Fused gate and up.
  down,                ///< [hidden, ffn], of a dense block or of an expert.
  ffn_post_norm,       ///< [hidden], for the output of the feed-forward, before the residual.
  layer_scale,         ///< [1], the factor of the rows behind a layer.
  input_table,         ///< [vocabulary, layers * layer_inputs], as the next:
  input_projection,    ///< [layers * layer_inputs, hidden]
  input_norm,          ///< [layer_inputs], for each layer's part of what the projection gives.
  input_gate,          ///< [layer_inputs, hidden], of a layer, as the next two.
  input_out,           ///< [hidden, layer_inputs]
  input_post_norm,     ///< [hidden]
  fusion,              ///< [hidden, what is joined], of a head on another model (FusionConfig).
  fusion_norm,         ///< [hidden], for the hidden states that a head joins.
  tap_norm,   ///< [features, or a part of them], for what a head reads; block: the part's number.
  token_norm, ///< [hidden], for the embedding that a head joins, if no block has a norm for it.
  fusion_out, ///< [width, hidden], of a head with Joint::whole: what it goes on from.
  clusters,   ///< [clusters, hidden], by which a head chooses what it says (ClusterConfig).
};

/// The place of an expert's number in a key, for the one that takes all rows.
inline constexpr int shared_expert = -2;

/// A tensor of a model: its role, the block that it is in (0 if it is in none), and the expert (-1
/// if it is none's).
struct TensorKey {
  TensorRole role;
  int block = 0;
  int expert = -1;
};

/// The part of a model that bytes count for.
enum class ModelPart { embedding, head, norms, attention, feed_forward, other };

/// A loader takes the tensors that it knows; any that nobody took is unexpected. Threads: one.
class TensorSource {
public:
  virtual ~TensorSource() = default;

  /// Returns whether such tensors are stored: a checkpoint has one of two tied tables or both, a
  /// family has a fused tensor or its parts, and may lack a norm.
  virtual bool has(TensorRole role) const = 0;
  /// Returns the type of all matrices, or f32 if they differ.
  virtual gpu::DType dtype() const = 0;

  /// Returns a linear layer's weight, [rows, cols] as stored: numbers, or blocks of a microscaling
  /// format. Valid until it is released.
  virtual Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) = 0;
  /// Returns the same layer's bias, [size], converted to f32.
  virtual Result<std::vector<float>> bias(TensorKey key, int size) = 0;
  /// Returns a vector that is no layer's bias, [size], converted to f32: a norm's weight, say.
  virtual Result<std::vector<float>> vector(TensorKey key, int size) = 0;
  /// Returns a convolution's weights, [channels, taps], converted to f32.
  virtual Result<std::vector<float>> kernel(TensorKey key, int channels, int taps) {
    return vector(key, channels * taps);
  }
  /// Returns whether both matrices are stored, with the same numbers.
  virtual bool same(TensorKey a, TensorKey b) const = 0;
  /// Tells that the embedding and the head, or a block's tensors, will soon be needed: reading
  /// starts, if necessary. A block that does not exist is ignored.
  virtual void read_ahead_tables() const = 0;
  virtual void read_ahead_block(int block) const = 0;
  /// Tells that nobody needs the matrix's bytes any more: they may leave memory.
  virtual void release(TensorKey key) = 0;
  /// Tells that the layer or norm changes nothing here (such as a tied head that is stored all the
  /// same).
  virtual void ignore(TensorKey key) = 0;
  /// Tells that nothing of this block is used here, for others load it.
  virtual void ignore_block(int block) = 0;

  /// Returns what the source calls the tensor, for messages.
  virtual std::string name(TensorKey key) const = 0;
  /// Returns an error that names the first tensor nobody took.
  virtual Result<void> check_all_taken() const = 0;
  virtual std::uint64_t parameters() const = 0; ///< Parameters of the tensors taken.

  struct Stored {
    ModelPart part;
    std::string format;     ///< "bf16", "mxfp6"; empty: a scale of another tensor, or a table.
    std::uint64_t bytes;    ///< Bytes as stored.
    std::uint64_t elements; ///< A scale has none.
    bool quantized = false; ///< Stored in microscaling blocks, which are kept when it is packed.
    /// Stored in blocks of a GGUF file, which are kept if the device takes them and no others are
    /// wanted.
    bool blocks = false;
    /// Stored in blocks that no kernel multiplies by: loaded as plain numbers.
    bool decoded = false;
    std::string name = {}; ///< The source's name for it.
  };
  virtual std::vector<Stored> tensors() const = 0; ///< All tensors that are stored.
};

} // namespace paceline::models
