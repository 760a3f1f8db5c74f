#include "models/transformer.hpp"

#include "models/feature_plan.hpp"

#include <cassert>
#include <numeric>
#include <utility>

namespace paceline::models {
namespace {

const float* floats(const Norm& norm) {
  return norm ? reinterpret_cast<const float*>(norm->data()) : nullptr;
}

/// The rows that pass through a block together, and the buffers they use.
struct Stage {
  gpu::Tensor residual;  ///< [rows, hidden]
  gpu::Tensor normed;    ///< [rows, hidden]
  gpu::Tensor qkv;       ///< [rows, (heads + 2 kv_heads) * head_dim]
  gpu::Tensor attended;  ///< [rows, heads * head_dim]
  gpu::Tensor gate_up;   ///< [rows, 2 ffn]
  gpu::Tensor activated; ///< [rows, ffn]
  int fast = 0;          ///< The last rows are of the fast path.

  Stage first(int rows) const {
    return {residual.slice(0, rows), normed.slice(0, rows),  qkv.slice(0, rows),
            attended.slice(0, rows), gate_up.slice(0, rows), activated.slice(0, rows)};
  }
};

class TransformerWorkspace final : public Workspace {
public:
  gpu::Tensor logits() const override { return logit_rows; }

  /// A [height, width] buffer of this workspace's.
  Result<gpu::Tensor> allocate(gpu::Device& device, int height, int width) {
    auto buffer = device.allocate(std::size_t(height) * std::size_t(width) * sizeof(float));
    if (!buffer)
      return tl::unexpected(buffer.error());
    buffers_.push_back(std::move(*buffer));
    return buffers_.back()->tensor(height, width);
  }

  Stage all;              ///< Every row of the batch.
  gpu::Tensor last;       ///< [max_logit_rows, hidden]: residual of the rows that are asked for,
  gpu::Tensor last_qkv;   ///< and their queries.
  gpu::Tensor logit_rows; ///< [max_logit_rows, vocabulary]
  gpu::Tensor tapped;     ///< [rows, features]: what a head reads of another model,
  gpu::Tensor fused;      ///< [rows, 2 hidden], and what its first block makes of it.
  std::vector<std::int32_t> every; ///< 0, 1, ... of all rows: those that stages hand over.

  // What `plan` laid out.
  std::vector<TokenId> tokens;
  std::vector<const TokenId*> drawn; ///< Instead of tokens: where the pass before leaves them.
  gpu::RowMap rows;
  int fast = 0;                     ///< Rows at the end that are of the fast path.
  std::vector<std::int32_t> wanted; ///< Rows whose logits are asked for, ascending,
  gpu::RowMap wanted_rows;          ///< and where they stand.
  FeaturePlan features;
  gpu::KvLayer cache;

private:
  std::vector<std::shared_ptr<gpu::Buffer>> buffers_;
};

/// out (+)= in * w^T
void multiply(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor in, const gpu::Weight& w,
              int fast, bool add = false) {
  const int exact = in.rows - fast;
  if (fast > 0)
    operations.linear_fast(out.slice(exact, fast), in.slice(exact, fast), w, add);
  if (exact > 0 && add)
    operations.linear_add(out.slice(0, exact), in.slice(0, exact), w);
  else if (exact > 0)
    operations.linear(out.slice(0, exact), in.slice(0, exact), w);
}

void clear(gpu::RowMap& rows) {
  rows.sequence.clear();
  rows.position.clear();
  rows.pages.clear();
}

void add_row(gpu::RowMap& rows, int sequence, int position) {
  rows.sequence.push_back(sequence);
  rows.position.push_back(position);
}

class Transformer final : public Model {
public:
  Transformer(ModelConfig config, TransformerWeights weights, ModelInfo info,
              std::shared_ptr<gpu::Device> device)
      : config_(std::move(config)), weights_(std::move(weights)), info_(std::move(info)),
        device_(std::move(device)) {
    for (std::size_t i = 0; i < weights_.ropes.size(); ++i) {
      const int pairs = int(config_.ropes[i].frequencies.size());
      ropes_.push_back({weights_.ropes[i].cos->tensor(config_.context, pairs),
                        weights_.ropes[i].sin->tensor(config_.context, pairs)});
    }
  }

  const TransformerWeights& weights() const { return weights_; }
  std::shared_ptr<const Model> with_taps(std::vector<int> layers) const {
    ModelConfig config = config_;
    config.taps = std::move(layers);
    return make_transformer(std::move(config), weights_, info_, device_);
  }
  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return config_.logits(); }
  int handed_on() const override { return is_last() ? 0 : config_.hidden; }
  gpu::KvShape kv_shape(int page_tokens) const override {
    return {page_tokens, layout(page_tokens).token_bytes(), config_.features()};
  }
  int page_tokens_multiple() const override { return 2; } // keys of bf16 go in pairs
  /// A head reads the features of all positions.
  int window() const override { return config_.taps.empty() ? config_.window() : 0; }
  gpu::Device& device() const override { return *device_; }
  std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const override {
    auto all = block_weights();
    if (is_last())
      all.push_back(weights_.head);
    if (weights_.fusion)
      all.push_back(weights_.fusion);
    return all;
  }

  Result<void> prepare_fast_prefill(int rows) const override {
    return device_->prepare_fast_products(block_weights(), rows); // Prompts want no logits.
  }

  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override {
    const ModelConfig& c = config_;
    const int qkv = (c.heads + 2 * c.kv_heads) * c.head_dim;
    auto space = std::make_unique<TransformerWorkspace>();
    if (is_stage()) {
      space->every.resize(std::size_t(max_rows));
      std::iota(space->every.begin(), space->every.end(), 0);
    }
    struct Part {
      gpu::Tensor* tensor;
      int rows;
      int cols;
    };
    const Part parts[] = {{&space->all.residual, max_rows, c.hidden},
                          {&space->all.normed, max_rows, c.hidden},
                          {&space->all.qkv, max_rows, qkv},
                          {&space->all.attended, max_rows, c.heads * c.head_dim},
                          {&space->all.gate_up, max_rows, 2 * c.ffn},
                          {&space->all.activated, max_rows, c.ffn},
                          {&space->last, max_logit_rows, is_last() ? c.hidden : 0},
                          {&space->last_qkv, max_logit_rows, is_last() ? qkv : 0},
                          {&space->logit_rows, max_logit_rows, is_last() ? c.logits() : 0},
                          {&space->tapped, max_rows, c.fusion ? c.fusion->features : 0},
                          {&space->fused, max_rows, c.fusion ? 2 * c.hidden : 0}};
    for (const Part& part : parts) {
      if (part.cols == 0)
        continue;
      auto tensor = space->allocate(*device_, part.rows, part.cols);
      if (!tensor)
        return tl::unexpected(tensor.error());
      *part.tensor = *tensor;
    }
    return space;
  }

  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override {
    auto& space = static_cast<TransformerWorkspace&>(workspace);
    space.tokens.clear();
    space.drawn.clear();
    space.wanted.clear();
    clear(space.rows);
    clear(space.wanted_rows);
    space.features.clear(pool);
    for (const bool fast : {false, true}) {
      const int before = space.rows.rows();
      for (const SequenceRows& sequence : batch)
        if (sequence.fast == fast)
          plan_sequence(sequence, pool, space);
      space.fast = space.rows.rows() - before;
    }
    space.wanted_rows.pages = space.rows.pages;
    space.cache = {&pool, layout(pool.shape().page_tokens), 0};
    assert(space.drawn.empty() || space.tokens.empty());
    assert(space.rows.rows() <= space.all.residual.rows);
    assert(!is_last() || int(space.wanted.size()) <= space.logit_rows.rows);
  }

  void forward(gpu::Operations& operations, Workspace& workspace) const override {
    auto& space = static_cast<TransformerWorkspace&>(workspace);
    const int wanted = int(space.wanted.size());
    if (space.rows.rows() == 0)
      return;
    Stage stage = space.all.first(space.rows.rows());
    stage.fast = space.fast;
    const gpu::RowMap* rows = &space.rows;
    if (config_.fusion)
      fuse(operations, space, stage);
    else if (is_first())
      embed(operations, space, stage.residual);
    else
      operations.gather(stage.residual, space.received, every_row(space));
    for (int i = 0; i < layers(); ++i) {
      const TransformerBlock& block = weights_.blocks[std::size_t(i)];
      const LayerConfig& layer = config_.attention[std::size_t(weights_.first_layer + i)];
      const gpu::KvLayer cache{space.cache.pool, space.cache.layout, i};
      tap(operations, space, stage.residual, weights_.first_layer + i);
      const bool fused = config_.fusion && i == 0;
      store(operations, block, layer, cache, stage,
            fused ? space.fused.slice(0, stage.residual.rows)
                  : input(operations, block.attention_norm, stage),
            *rows);
      if (is_last() && i + 1 == layers() && wanted < rows->rows()) {
        if (wanted == 0)
          return;
        stage = narrow(operations, space, stage);
        rows = &space.wanted_rows;
      }
      attend(operations, block, layer.window, cache, stage, *rows);
      feed_forward(operations, block, stage);
    }
    if (!is_last())
      return operations.gather(space.left.slice(0, stage.residual.rows), stage.residual,
                               every_row(space));
    if (config_.fusion)
      operations.scatter(space.features.own, stage.residual, space.features.left);
    operations.rms_norm(stage.normed, stage.residual, floats(weights_.final_norm),
                        config_.norm_epsilon);
    const gpu::Tensor logits = space.logit_rows.slice(0, wanted);
    operations.linear(logits, stage.normed, *weights_.head);
    if (config_.logit_soft_cap > 0)
      operations.soft_cap(logits, config_.logit_soft_cap);
  }

private:
  int layers() const { return int(weights_.blocks.size()); }
  bool is_first() const { return weights_.first_layer == 0; }
  bool is_last() const { return weights_.first_layer + layers() == config_.layers; }
  bool is_stage() const { return !is_first() || !is_last(); }
  static std::span<const std::int32_t> every_row(const TransformerWorkspace& space) {
    return std::span(space.every).first(std::size_t(space.rows.rows()));
  }

  /// Matrices that a step reads for every row.
  std::vector<std::shared_ptr<const gpu::Weight>> block_weights() const {
    std::vector<std::shared_ptr<const gpu::Weight>> all;
    for (const TransformerBlock& block : weights_.blocks)
      all.insert(all.end(), {block.qkv, block.attention_out, block.gate_up, block.down});
    return all;
  }

  gpu::KvLayout layout(int page_tokens) const {
    return {layers(), config_.kv_heads, config_.head_dim, page_tokens, weights_.cached};
  }

  /// A head's row for the token at some position stands one before it, where the features are that
  /// it reads; so the first token has none.
  void plan_sequence(const SequenceRows& sequence, const gpu::KvPool& pool,
                     TransformerWorkspace& space) const {
    const int index = int(space.rows.pages.size());
    const int shift = config_.fusion ? 1 : 0;
    const int first = sequence.start < shift ? 1 : 0;
    space.rows.pages.push_back(sequence.pages);
    if (sequence.drawn)
      space.drawn.push_back(sequence.drawn);
    else
      space.tokens.insert(space.tokens.end(), sequence.tokens.begin() + first,
                          sequence.tokens.end());
    assert(first == 0 || !sequence.drawn);
    assert(sequence.logits_from >= first);
    assert(!sequence.drawn || sequence.rows() == 1);
    assert(sequence.start + sequence.rows() <= config_.context);
    assert(!sequence.fast ||
           (sequence.start % gpu::fast_chunk == 0 && sequence.rows() % gpu::fast_chunk == 0 &&
            sequence.logit_rows() == 0));
    for (int i = first; i < sequence.rows(); ++i) {
      const int position = sequence.start + i;
      const bool wanted = i >= sequence.logits_from;
      if (wanted) {
        space.wanted.push_back(space.rows.rows());
        add_row(space.wanted_rows, index, position - shift);
      }
      if (config_.fusion)
        space.features.read(sequence, pool, position, space.rows.rows());
      if (config_.fusion ? wanted : !config_.taps.empty())
        space.features.left.push_back(pool.feature_row(sequence.pages, position));
      add_row(space.rows, index, position - shift);
    }
  }

  void embed(gpu::Operations& operations, const TransformerWorkspace& space,
             gpu::Tensor out) const {
    if (space.drawn.empty())
      operations.embed(out, *weights_.embedding, space.tokens, config_.embedding_scale);
    else
      operations.embed_drawn(out, *weights_.embedding, space.drawn, config_.embedding_scale);
  }

  /// What a head's first block reads (Li et al. 2025, section 3): the embedding of a token, and
  /// beside it the features of the position before, which are the residual, too. The target's are
  /// made one of three; the head's own, where it goes on alone, are as its last row left them.
  void fuse(gpu::Operations& operations, const TransformerWorkspace& space,
            const Stage& stage) const {
    const FeaturePlan& plan = space.features;
    if (const int rows = plan.tapped.rows()) {
      operations.gather(space.tapped.slice(0, rows), plan.target, plan.tapped.from);
      operations.linear(stage.normed.slice(0, rows), space.tapped.slice(0, rows), *weights_.fusion);
      operations.scatter(stage.residual, stage.normed.slice(0, rows), plan.tapped.to);
    }
    if (const int rows = plan.drafted.rows()) {
      operations.gather(stage.normed.slice(0, rows), plan.own, plan.drafted.from);
      operations.scatter(stage.residual, stage.normed.slice(0, rows), plan.drafted.to);
    }
    const int hidden = config_.hidden;
    const gpu::Tensor fused = space.fused.slice(0, stage.residual.rows);
    embed(operations, space, stage.normed);
    operations.rms_norm(fused.columns(0, hidden), stage.normed,
                        floats(weights_.blocks.front().attention_norm), config_.norm_epsilon);
    operations.rms_norm(fused.columns(hidden, hidden), stage.residual, floats(weights_.fusion_norm),
                        config_.norm_epsilon);
    if (config_.fusion->norm_before_residual)
      operations.rms_norm(stage.residual, stage.residual, floats(weights_.fusion_norm),
                          config_.norm_epsilon);
  }

  /// Leaves a layer's input in the pages, if a head reads it.
  void tap(gpu::Operations& operations, const TransformerWorkspace& space, gpu::Tensor residual,
           int layer) const {
    for (std::size_t i = 0; i < config_.taps.size(); ++i)
      if (config_.taps[i] == layer)
        operations.scatter(space.features.own.columns(int(i) * config_.hidden, config_.hidden),
                           residual, space.features.left);
  }

  /// What a sublayer reads: the residual, normalised where the family has a norm before it.
  gpu::Tensor input(gpu::Operations& operations, const Norm& norm, const Stage& stage) const {
    if (!norm)
      return stage.residual;
    operations.rms_norm(stage.normed, stage.residual, floats(norm), config_.norm_epsilon);
    return stage.normed;
  }

  /// residual += in * w, normalised where the family has a norm behind the sublayer.
  void output(gpu::Operations& operations, const Norm& norm, const Stage& stage, gpu::Tensor in,
              const gpu::Weight& w) const {
    if (!norm)
      return multiply(operations, stage.residual, in, w, stage.fast, true);
    multiply(operations, stage.normed, in, w, stage.fast);
    operations.rms_norm_add(stage.residual, stage.normed, floats(norm), config_.norm_epsilon);
  }

  /// Keys and values of all rows go to the cache; queries stay in stage.qkv. in: what the block
  /// reads.
  void store(gpu::Operations& operations, const TransformerBlock& block, const LayerConfig& layer,
             const gpu::KvLayer& cache, const Stage& stage, gpu::Tensor in,
             const gpu::RowMap& rows) const {
    multiply(operations, stage.qkv, in, *block.qkv, stage.fast);
    gpu::HeadNorms norms;
    if (config_.qk_norm == QkNorm::per_head)
      norms = {floats(block.query_norm), floats(block.key_norm), config_.norm_epsilon};
    if (config_.qk_norm == QkNorm::full_width)
      norm_full_width(operations, block, stage.qkv);
    operations.rope_store(stage.qkv, config_.heads,
                          layer.rope < 0 ? gpu::RopeTable() : ropes_[std::size_t(layer.rope)],
                          norms, rows, cache);
  }

  /// All queries of a row are normalised together, and all keys (OLMo 2).
  void norm_full_width(gpu::Operations& operations, const TransformerBlock& block,
                       const gpu::Tensor& qkv) const {
    const int width = config_.heads * config_.head_dim;
    const gpu::Tensor queries = qkv.columns(0, width);
    const gpu::Tensor keys = qkv.columns(width, config_.kv_heads * config_.head_dim);
    operations.rms_norm(queries, queries, floats(block.query_norm), config_.norm_epsilon);
    operations.rms_norm(keys, keys, floats(block.key_norm), config_.norm_epsilon);
  }

  /// Once the last block has stored its keys and values, only rows whose logits are asked for go
  /// on: a prompt's other rows end here.
  Stage narrow(gpu::Operations& operations, TransformerWorkspace& space, const Stage& all) const {
    const int wanted = int(space.wanted.size());
    Stage out = all.first(wanted);
    out.residual = space.last.slice(0, wanted);
    out.qkv = space.last_qkv.slice(0, wanted);
    operations.gather(out.residual, all.residual, space.wanted);
    operations.gather(out.qkv, all.qkv, space.wanted);
    return out;
  }

  void attend(gpu::Operations& operations, const TransformerBlock& block, int window,
              const gpu::KvLayer& cache, const Stage& stage, const gpu::RowMap& rows) const {
    operations.attention(stage.attended, stage.qkv, config_.heads,
                         {config_.attention_scale, config_.attention_soft_cap, window}, rows,
                         cache);
    output(operations, block.attention_post_norm, stage, stage.attended, *block.attention_out);
  }

  void feed_forward(gpu::Operations& operations, const TransformerBlock& block,
                    const Stage& stage) const {
    multiply(operations, stage.gate_up, input(operations, block.ffn_norm, stage), *block.gate_up,
             stage.fast);
    operations.gate(stage.activated, stage.gate_up, config_.activation);
    output(operations, block.ffn_post_norm, stage, stage.activated, *block.down);
  }

  ModelConfig config_;
  TransformerWeights weights_;
  ModelInfo info_;
  std::shared_ptr<gpu::Device> device_;
  std::vector<gpu::RopeTable> ropes_;
};

} // namespace

std::shared_ptr<const Model> make_transformer(ModelConfig config, TransformerWeights weights,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device) {
  return std::make_shared<const Transformer>(std::move(config), std::move(weights), std::move(info),
                                             std::move(device));
}

std::shared_ptr<const Model> with_taps(const Model& transformer, std::vector<int> layers) {
  return dynamic_cast<const Transformer&>(transformer).with_taps(std::move(layers));
}

const TransformerWeights* weights_of(const Model& model) {
  const auto* transformer = dynamic_cast<const Transformer*>(&model);
  return transformer ? &transformer->weights() : nullptr;
}

} // namespace paceline::models
