#include "models/block_drafter.hpp"

#include "models/row_products.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::models {
namespace {

void clear(gpu::RowMap& map) {
  map.sequence.clear();
  map.position.clear();
  map.pages.clear();
}

void add_row(gpu::RowMap& map, int position) {
  map.sequence.push_back(std::int32_t(map.pages.size()) - 1);
  map.position.push_back(position);
}

/// The layout of a pass, and its memory. First come the rows of all sequences that store keys and
/// values of features, then those of all blocks.
class BlockWorkspace final : public Workspace {
public:
  gpu::Tensor logits() const override { return logit_rows; }

  gpu::Tensor allocate(gpu::Device& device, int height, int width, std::optional<Error>& error) {
    auto buffer = device.allocate(std::size_t(height) * std::size_t(width) * sizeof(float));
    if (!buffer) {
      error = buffer.error();
      return {};
    }
    buffers_.push_back(std::move(*buffer));
    return buffers_.back()->tensor(height, width);
  }

  gpu::Tensor tapped;     ///< [rows, features]
  gpu::Tensor combined;   ///< [rows, hidden]
  gpu::Tensor read;       ///< [rows, hidden]: what the product of a layer's attention reads.
  gpu::Tensor qkv;        ///< [rows, queries, keys and values]
  gpu::Tensor residual;   ///< [rows, hidden], of blocks, as the next:
  gpu::Tensor attended;   ///< [rows, heads * head_dim]
  gpu::Tensor gate_up;    ///< [rows, 2 ffn]
  gpu::Tensor activated;  ///< [rows, ffn]
  gpu::Tensor last;       ///< [max_logit_rows, hidden]
  gpu::Tensor logit_rows; ///< [max_logit_rows, vocabulary]

  // Below is the layout that `plan` made.
  gpu::Tensor features;               ///< Those of the other model, in its pages.
  std::vector<std::int32_t> taken;    ///< The rows of `features` that are read.
  std::vector<TokenId> tokens;        ///< Those of blocks.
  gpu::RowMap all;                    ///< All rows.
  gpu::RowMap one_way;                ///< Rows of blocks, where they stand,
  gpu::RowMap both_ways;              ///< and where each sees its whole block.
  std::vector<std::int32_t> wanted;   ///< Rows of blocks whose logits are asked for.
  std::vector<gpu::KvLayout> layouts; ///< Of the layers' keys and values.
  const gpu::KvPool* pool = nullptr;

private:
  std::vector<std::shared_ptr<gpu::Buffer>> buffers_;
};

class BlockDrafter final : public Model {
public:
  BlockDrafter(ModelConfig config, TransformerWeights weights, ModelInfo info,
               std::shared_ptr<gpu::Device> device)
      : config_(std::move(config)), weights_(std::move(weights)), info_(std::move(info)),
        device_(std::move(device)) {
    for (std::size_t i = 0; i < weights_.ropes.size(); ++i) {
      const int pairs = int(config_.ropes[i].frequencies.size());
      ropes_.push_back({weights_.ropes[i].cos->tensor(config_.context, pairs),
                        weights_.ropes[i].sin->tensor(config_.context, pairs)});
    }
  }

  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return config_.logits(); }
  gpu::KvShape kv_shape(int page_tokens) const override {
    return {page_tokens, config_.token_bytes(0, config_.layers, weights_.cached)};
  }
  double cache_width() const override {
    if (weights_.cached != gpu::KvType::int8)
      return 1;
    const auto in_bf16 = config_.token_bytes(0, config_.layers, gpu::KvType::bf16);
    return double(kv_shape(1).token_bytes) / double(in_bf16);
  }
  int page_tokens_multiple() const override { return 2; } // keys of bf16 are stored in pairs
  gpu::Device& device() const override { return *device_; }
  int block_tokens() const override {
    return std::min(config_.fusion->block - 1, sampling::limits::window_max);
  }
  std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const override {
    std::vector<std::shared_ptr<const gpu::Weight>> all{weights_.fusion, weights_.head};
    for (const TransformerBlock& block : weights_.blocks)
      all.insert(all.end(), {block.qkv, block.attention_out, block.gate_up, block.down});
    return all;
  }

  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override {
    const ModelConfig& c = config_;
    auto space = std::make_unique<BlockWorkspace>();
    struct Part {
      gpu::Tensor* tensor;
      int rows;
      int cols;
    };
    const Part parts[] = {{&space->tapped, max_rows, c.fusion->features},
                          {&space->combined, max_rows, c.hidden},
                          {&space->read, max_rows, c.hidden},
                          {&space->qkv, max_rows, c.attention_outputs(0)},
                          {&space->residual, max_rows, c.hidden},
                          {&space->attended, max_rows, c.heads * c.head_dim},
                          {&space->gate_up, max_rows, 2 * c.ffn},
                          {&space->activated, max_rows, c.ffn},
                          {&space->last, max_logit_rows, c.hidden},
                          {&space->logit_rows, max_logit_rows, c.logits()}};
    std::optional<Error> error;
    for (const Part& part : parts) {
      *part.tensor = space->allocate(*device_, part.rows, part.cols, error);
      if (error)
        return tl::unexpected(*error);
    }
    return space;
  }

  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override {
    auto& space = static_cast<BlockWorkspace&>(workspace);
    space.pool = &pool;
    if (space.layouts.empty() || space.layouts.front().page_tokens != pool.shape().page_tokens)
      space.layouts = layouts(pool.shape().page_tokens);
    space.taken.clear();
    space.tokens.clear();
    space.wanted.clear();
    for (gpu::RowMap* map : {&space.all, &space.one_way, &space.both_ways})
      clear(*map);
    for (const SequenceRows& sequence : batch)
      plan_context(sequence, space);
    for (const SequenceRows& sequence : batch)
      if (sequence.logit_rows() > 0)
        plan_block(sequence, space);
    assert(space.all.rows() <= space.read.rows);
    assert(int(space.wanted.size()) <= space.logit_rows.rows);
  }

  void forward(gpu::Operations& operations, Workspace& workspace) const override {
    auto& space = static_cast<BlockWorkspace&>(workspace);
    const int context = int(space.taken.size());
    const int block = int(space.tokens.size());
    if (context + block == 0)
      return;
    combine(operations, space, context);
    const gpu::Tensor residual = space.residual.slice(0, block);
    if (block > 0)
      operations.embed(residual, *weights_.embedding, space.tokens, config_.embedding_scale);
    for (int i = 0; i < config_.layers; ++i) {
      store(operations, space, i, context, residual);
      if (block == 0)
        continue;
      attend(operations, space, i, context, residual);
      feed_forward(operations, space, i, residual);
    }
    if (block > 0)
      leave(operations, space, residual);
  }

private:
  const TransformerBlock& block(int i) const { return weights_.blocks[std::size_t(i)]; }
  const LayerConfig& layer(int i) const { return config_.mixers[std::size_t(i)]; }
  gpu::KvLayer cache(const BlockWorkspace& space, int i) const {
    return {space.pool, space.layouts[std::size_t(i)], 0};
  }

  std::vector<gpu::KvLayout> layouts(int page_tokens) const {
    std::vector<gpu::KvLayout> all;
    for (int i = 0; i < config_.layers; ++i)
      all.push_back(config_.pages_of(i, 0, page_tokens, weights_.cached));
    return all;
  }

  /// Lays out the rows of the positions before the tokens: these positions are committed, too.
  static void plan_context(const SequenceRows& sequence, BlockWorkspace& space) {
    const Features& features = sequence.features;
    space.all.pages.push_back(sequence.pages);
    for (int position = std::max(0, sequence.start - 1);
         position < sequence.start + sequence.rows() - 1; ++position) {
      assert(position < features.count);
      space.features = features.pool->features();
      space.taken.push_back(features.row(position));
      add_row(space.all, position);
    }
  }

  /// Lays out the rows of the last token and of the masks behind it.
  void plan_block(const SequenceRows& sequence, BlockWorkspace& space) const {
    const int first = sequence.start + sequence.rows() - 1;
    const int last = first + sequence.masks;
    assert(sequence.logits_from >= sequence.rows() && last < config_.context);
    for (gpu::RowMap* map : {&space.all, &space.one_way, &space.both_ways})
      map->pages.push_back(sequence.pages);
    for (int position = first; position <= last; ++position) {
      if (position - sequence.start >= sequence.logits_from)
        space.wanted.push_back(std::int32_t(space.tokens.size()));
      space.tokens.push_back(position == first ? sequence.tokens.back() : config_.fusion->mask);
      add_row(space.all, position);
      add_row(space.one_way, position);
      add_row(space.both_ways, last);
    }
  }

  /// Combines the features of each position into the row that all layers read.
  void combine(gpu::Operations& operations, BlockWorkspace& space, int context) const {
    if (context == 0)
      return;
    const gpu::Tensor tapped = space.tapped.slice(0, context);
    const gpu::Tensor combined = space.combined.slice(0, context);
    operations.gather(tapped, space.features, space.taken);
    operations.linear(combined, tapped, *weights_.fusion);
    operations.rms_norm(space.read.slice(0, context), combined, floats(weights_.fusion_norm),
                        config_.norm_epsilon);
  }

  /// Stores keys and values of all rows. The rows of features stay in `read` for the next layer.
  void store(gpu::Operations& operations, BlockWorkspace& space, int i, int context,
             gpu::Tensor residual) const {
    const TransformerBlock& b = block(i);
    const int rows = context + residual.rows;
    if (residual.rows > 0)
      operations.rms_norm(space.read.slice(context, residual.rows), residual,
                          floats(b.attention_norm), config_.norm_epsilon);
    const gpu::Tensor qkv = space.qkv.slice(0, rows);
    operations.linear(qkv, space.read.slice(0, rows), *b.qkv);
    gpu::HeadNorms norms{.epsilon = config_.norm_epsilon};
    if (config_.qk_norm == QkNorm::per_head) {
      norms.query = floats(b.query_norm);
      norms.key = floats(b.key_norm);
    }
    const int rope = layer(i).rope;
    operations.rope_store(qkv, config_.heads,
                          rope < 0 ? gpu::RopeTable() : ropes_[std::size_t(rope)], norms, space.all,
                          cache(space, i));
  }

  void attend(gpu::Operations& operations, BlockWorkspace& space, int i, int context,
              gpu::Tensor residual) const {
    const gpu::Tensor attended = space.attended.slice(0, residual.rows);
    operations.attention(attended, space.qkv.slice(context, residual.rows), config_.heads,
                         {.scale = config_.attention_scale, .window = layer(i).window},
                         layer(i).both_ways ? space.both_ways : space.one_way, cache(space, i));
    operations.linear_add(residual, attended, *block(i).attention_out);
  }

  void feed_forward(gpu::Operations& operations, BlockWorkspace& space, int i,
                    gpu::Tensor residual) const {
    const TransformerBlock& b = block(i);
    const gpu::Tensor normed = space.combined.slice(0, residual.rows);
    const gpu::Tensor gate_up = space.gate_up.slice(0, residual.rows);
    const gpu::Tensor activated = space.activated.slice(0, residual.rows);
    operations.rms_norm(normed, residual, floats(b.ffn_norm), config_.norm_epsilon);
    operations.linear_gate(activated, gate_up, normed, *b.gate_up, config_.gating);
    operations.linear_add(residual, activated, *b.down);
  }

  void leave(gpu::Operations& operations, BlockWorkspace& space, gpu::Tensor residual) const {
    const int wanted = int(space.wanted.size());
    const gpu::Tensor last = space.last.slice(0, wanted);
    operations.gather(last, residual, space.wanted);
    operations.rms_norm(last, last, floats(weights_.final_norm), config_.norm_epsilon);
    operations.linear(space.logit_rows.slice(0, wanted), last, *weights_.head);
  }

  ModelConfig config_;
  TransformerWeights weights_;
  ModelInfo info_;
  std::shared_ptr<gpu::Device> device_;
  std::vector<gpu::RopeTable> ropes_;
};

} // namespace

std::shared_ptr<const Model> make_block_drafter(ModelConfig config, TransformerWeights weights,
                                                ModelInfo info,
                                                std::shared_ptr<gpu::Device> device) {
  return std::make_shared<const BlockDrafter>(std::move(config), std::move(weights),
                                              std::move(info), std::move(device));
}

} // namespace paceline::models
