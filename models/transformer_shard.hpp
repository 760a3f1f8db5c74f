// A device's part of a transformer and of its passes: the whole one, or a shard (shards.hpp).
#pragma once

#include "models/feature_plan.hpp"
#include "models/model.hpp"
#include "models/shards.hpp"
#include "models/transformer_weights.hpp"

#include <array>
#include <vector>

namespace paceline::models {

/// The rows that pass through a block together, and the buffers they use. Widths are the shard's.
struct Activations {
  gpu::Tensor residual;  ///< [rows, hidden]
  gpu::Tensor normed;    ///< [rows, hidden]
  gpu::Tensor qkv;       ///< [rows, what TransformerBlock::qkv of any layer gives]
  gpu::Tensor attended;  ///< [rows, ModelConfig::mixer_values of any layer]
  gpu::Tensor gate_up;   ///< [rows, 2 ffn]; empty: feed-forwards have no gates.
  gpu::Tensor activated; ///< [rows, ffn]
  int fast = 0;          ///< Number of rows, the last ones, that take the fast path.

  Activations first(int rows) const {
    return {residual.slice(0, rows), normed.slice(0, rows),  qkv.slice(0, rows),
            attended.slice(0, rows), gate_up.slice(0, rows), activated.slice(0, rows)};
  }
};

/// What rows need in a mixture of experts. A row has top_k picks.
struct MixtureSpace {
  gpu::Tensor scores;           ///< [rows, experts, and the gate of the shared one if it has one]
  gpu::Tensor gate_up;          ///< [picks, 2 ffn of an expert]
  gpu::Tensor activated;        ///< [picks, ffn of an expert]
  gpu::Tensor out;              ///< [picks, hidden]
  gpu::Tensor routing;          ///< Memory of a gpu::Routing.
  gpu::Tensor shared_gate_up;   ///< [rows, 2 shared_ffn]
  gpu::Tensor shared_activated; ///< [rows, shared_ffn]
  /// [rows, 2 hidden]: what experts and shared expert give, of a mixture that is apart.
  gpu::Tensor apart;
};

/// What a layer's input passes through (ModelConfig::layer_inputs).
struct InputSpace {
  gpu::Tensor all;       ///< [rows, layers * layer_inputs]: every layer's input.
  gpu::Tensor projected; ///< The same size.
  gpu::Tensor gated;     ///< [rows, 2 layer_inputs]: gates, and beside them a layer's input.
  gpu::Tensor activated; ///< [rows, layer_inputs]
};

/// One shard's memory for passes.
struct ShardSpace {
  Activations all;           ///< Every row of the batch.
  gpu::Tensor last;          ///< [max_logit_rows, hidden]: the rows that are asked for.
  gpu::Tensor last_qkv;      ///< Queries of these rows.
  gpu::Tensor last_attended; ///< What a recurrent last layer has given for these rows.
  gpu::Tensor rates;         ///< [rows, rates] of a recurrent layer.
  /// [max_logit_rows, the shard's part of the vocabulary]: columns of all logits.
  gpu::Tensor logits;
  MixtureSpace mixture;
  InputSpace inputs;
  gpu::Tensor tapped; ///< [rows, features]: what a head reads of another model.
  gpu::Tensor fused;  ///< [rows, 2 hidden, or 2 width]: a token, and what a head joins with it.
  // What the rows of a head with clusters go through (ClusterConfig).
  gpu::Tensor nearness; ///< [rows, clusters]
  gpu::Tensor chosen;   ///< Memory of a gpu::Routing.
  gpu::Tensor said;     ///< [rows * used, ids of a cluster]
  /// [rows, hidden, or 2 hidden if a mixture is apart]: addends of sums over all shards, without
  /// gaps between rows of either width. Two in turn: before a shard writes to one
  /// again, all shards have met since it was read. Empty: there is no other shard.
  std::array<gpu::Tensor, 2> addends;
  /// Ids counted from the first one of the shard's part of the embedding; empty in the first shard.
  std::vector<TokenId> tokens;
  const gpu::KvPool* pool = nullptr;
  std::vector<gpu::KvLayout> layouts; ///< The layouts of the layers' keys and values in `pool`.
  gpu::StateLayer states;
};

/// The layout of a pass, which is made once for all shards, and their memory.
class TransformerWorkspace final : public Workspace {
public:
  gpu::Tensor logits() const override { return logit_rows; }

  /// Allocates a [height, width] buffer of this workspace. readers: a device whose lanes may also
  /// read it; null: none.
  Result<gpu::Tensor> allocate(gpu::Device& device, int height, int width,
                               const gpu::Device* readers = nullptr);

  std::vector<ShardSpace> shards;
  gpu::Tensor logit_rows;          ///< [max_logit_rows, vocabulary]
  std::vector<std::int32_t> every; ///< 0, 1, ... up to all rows: the rows that stages hand over.

  // Below is the layout that `plan` made.
  std::vector<TokenId> tokens;
  std::vector<const TokenId*> drawn; ///< Instead of `tokens`: where the pass before leaves them.
  gpu::RowMap rows;
  std::vector<gpu::StateRun> runs;  ///< One for each sequence, if layers are recurrent.
  int fast = 0;                     ///< Number of rows, at the end, that take the fast path.
  std::vector<std::int32_t> wanted; ///< Rows whose logits are asked for, ascending.
  gpu::RowMap wanted_rows;          ///< Positions of these rows.
  FeaturePlan features;

  std::span<const std::int32_t> first_rows(int count) const {
    return std::span(every).first(std::size_t(count));
  }

private:
  std::vector<std::shared_ptr<gpu::Buffer>> buffers_;
};

/// A transformer's part on one device. Immutable. Threads: those of its lane, one pass at a time.
class TransformerShard {
public:
  /// config: the whole model's; weights: the shard's.
  TransformerShard(const ModelConfig& config, TransformerWeights weights,
                   std::shared_ptr<gpu::Device> device, Shard place);

  const ModelConfig& config() const { return config_; } ///< The shard's own configuration.
  const TransformerWeights& weights() const { return weights_; }
  gpu::Device& device() const { return *device_; }
  int layers() const { return int(weights_.blocks.size()); }
  bool is_first() const { return weights_.first_layer == 0; }
  /// Returns whether the shard has the last layer, or comes behind it.
  bool ends() const { return weights_.first_layer + layers() == config_.layers; }
  bool is_last() const { return ends() && weights_.head; }
  /// Returns whether it is only the final norm and the head.
  bool is_tail() const { return layers() == 0; }
  /// Return the matrices that all rows are multiplied by (the fast path's, too), those of routers
  /// and rates, and those of experts that rows are routed to.
  std::vector<std::shared_ptr<const gpu::Weight>> dense_weights() const;
  std::vector<std::shared_ptr<const gpu::Weight>> small_weights() const;
  std::vector<std::shared_ptr<const gpu::Weight>> expert_weights() const;
  /// Returns the bytes of a position's keys and values in these layers.
  std::size_t token_bytes() const {
    return config_.token_bytes(weights_.first_layer, layers(), weights_.cached);
  }
  double cache_width() const; ///< Same as Model::cache_width.
  /// Returns where each layer's keys and values lie in pages, its own or those that it reads.
  std::vector<gpu::KvLayout> layouts(int page_tokens) const;
  gpu::StateLayout states() const { return config_.states_of(weights_.first_layer, layers()); }
  /// Allocates the shard's memory. group: the device of all shards.
  Result<void> allocate(TransformerWorkspace& workspace, const gpu::Device& group, int max_rows,
                        int max_logit_rows) const;
  /// Lays out the shard's part, after everything else of the workspace.
  void plan(const gpu::KvPool& pool, TransformerWorkspace& workspace) const;

  /// A shard's way through a pass, on one rank of its team. After `enter`, `attend` and
  /// `feed_forward` all shards meet, and `add_up` follows.
  class Pass {
    /// What a sublayer's output goes through before the residual.
    struct Behind {
      const float* norm = nullptr; ///< Null: nothing.
      float scale = 1;             ///< Factor of the sum with the residual, if there is a norm.
      /// Norms of the two halves of a wide output, which are added up before the norm; null: it has
      /// no halves.
      const float* first_half = nullptr;
      const float* second_half = nullptr;
    };

  public:
    Pass(const TransformerShard& shard, TransformerWorkspace& workspace);

    /// Puts keys and values of another model into the pages of a head that has none of its own.
    void take_keys(gpu::Operations& operations) const;
    /// Takes the rows as they come into the first of these layers.
    void enter(gpu::Operations& operations);
    /// Makes what these layers read of a token beside its row (ModelConfig::layer_inputs). All
    /// shards make the same.
    void make_inputs(gpu::Operations& operations);
    /// Stores keys and values of all rows in the cache, for layer `i` of these, or advances its
    /// states by them, or does nothing where it has no mixer.
    void store(gpu::Operations& operations, int i);
    /// Drops rows whose logits are not asked for, once the last block that does so has stored its
    /// keys and values: a prompt's other rows end here.
    void narrow(gpu::Operations& operations, int i);
    /// These are for layers with such a part.
    void attend(gpu::Operations& operations, int i);
    void feed_forward(gpu::Operations& operations, int i);
    /// Adds what layer `i` makes of its own input, if it has one. All shards compute the same.
    void add_input(gpu::Operations& operations, int i);
    /// Adds what the shards have left for one another to the residual.
    void add_up(gpu::Operations& operations);
    /// Gives the rows as they leave the last of these layers: to the next stage, or as logits.
    void leave(gpu::Operations& operations);

    int rows() const { return at_.residual.rows; }

  private:
    const ModelConfig& config() const { return shard_.config_; }
    const TransformerBlock& block(int i) const { return shard_.weights_.blocks[std::size_t(i)]; }
    int number(int i) const { return shard_.weights_.first_layer + i; }
    const LayerConfig& layer(int i) const { return config().mixers[std::size_t(number(i))]; }
    bool is_recurrent(int i) const { return config().is_recurrent(number(i)); }
    /// Returns how many recurrent layers are before layer `i`, among these.
    int recurrent_before(int i) const {
      return config().recurrent_in(shard_.weights_.first_layer, i);
    }
    /// Returns the keys and values that layer `i` stores, or reads of another layer.
    gpu::KvLayer cache(int i) const { return {own_.pool, own_.layouts[std::size_t(i)], 0}; }
    gpu::Tensor queries(int i) const;
    void advance(gpu::Operations& operations, int i);
    void advance_matrices(gpu::Operations& operations, int i, gpu::Tensor in);
    void convolve(gpu::Operations& operations, int i);
    void give_values(gpu::Operations& operations, int i);
    gpu::Tensor given_values(gpu::Operations& operations, int i);
    gpu::StateLayer states(int i) const {
      return {own_.states.pool, own_.states.layout, recurrent_before(i)};
    }
    gpu::Tensor addend(const ShardSpace& shard, int width) const {
      return {shard.addends[sums_ % 2].data, rows(), width, width};
    }
    void embed(gpu::Operations& operations, gpu::Tensor out) const;
    void embed_tokens(gpu::Operations& operations, gpu::Tensor out, const gpu::Weight& table,
                      const std::vector<TokenId>& tokens, float scale) const;
    void normalise(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor in,
                   const Norm& norm) const;
    void take_features(gpu::Operations& operations) const;
    void norm_taps(gpu::Operations& operations, gpu::Tensor tapped) const;
    void join(gpu::Operations& operations) const;
    void join_whole(gpu::Operations& operations) const;
    void leave_features(gpu::Operations& operations) const;
    void say(gpu::Operations& operations, gpu::Tensor logits, gpu::Tensor rows) const;
    void say_clusters(gpu::Operations& operations, gpu::Tensor logits, gpu::Tensor rows) const;
    gpu::RopeTable rotation(int i) const;
    void tap(gpu::Operations& operations, int layer, gpu::Tensor rows) const;
    void tap_keys(gpu::Operations& operations, int i) const;
    gpu::Tensor wanted_of(gpu::Operations& operations, gpu::Tensor rows) const;
    gpu::Tensor input(gpu::Operations& operations, const Norm& norm) const;
    template <class F>
    void output(gpu::Operations& operations, const Behind& behind, const F& give);
    gpu::Tensor given(const Behind& behind) const;
    void add_normed(gpu::Operations& operations, const Behind& behind);
    Behind behind_feed_forward(const TransformerBlock& block) const;
    void activate(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor made, gpu::Tensor in,
                  const gpu::Weight& w) const;
    void feed_dense(gpu::Operations& operations, int i);
    void feed_experts(gpu::Operations& operations, const TransformerBlock& block);
    void activate_shared(gpu::Operations& operations, const TransformerBlock& block, gpu::Tensor in,
                         gpu::Tensor scores) const;
    void norm_full_width(gpu::Operations& operations, int i) const;

    const TransformerShard& shard_;
    TransformerWorkspace& space_;
    ShardSpace& own_;
    const gpu::RowMap* map_;
    Activations at_;
    std::size_t sums_ = 0;
    /// How `add_up` uses the sum: it becomes the residual, or is added to it.
    bool begins_ = false;
    Behind behind_;
    std::vector<gpu::Tensor> parts_;
  };

private:
  ModelConfig config_;
  TransformerWeights weights_;
  std::shared_ptr<gpu::Device> device_;
  Shard place_;
  Range vocabulary_; ///< The shard's rows of the embedding.
  Range logits_;     ///< The shard's rows of the head.
  std::vector<gpu::RopeTable> ropes_;
};

} // namespace paceline::models
