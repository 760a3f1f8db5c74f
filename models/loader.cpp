#include "models/loader.hpp"

#include "models/checkpoint/tensor_source.hpp"
#include "models/limits.hpp"
#include "models/packer.hpp"
#include "models/recurrent_loader.hpp"

#include <cmath>
#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Returns the bytes of the blocks' linear layers.
std::size_t layer_bytes(const TransformerWeights& weights) {
  std::size_t bytes = 0;
  for (const TransformerBlock& b : weights.blocks)
    for (const auto& layer : {b.qkv, b.attention_out, b.gate_up, b.down, b.shared_gate_up,
                              b.shared_down, b.input_gate, b.input_out})
      bytes += layer ? layer->bytes() : 0;
  return bytes;
}

class Loader {
public:
  Loader(TensorSource& tensors, const ModelConfig& config, gpu::DType dtype, gpu::Device& device,
         const LoadOptions& options, const Shard& shard)
      : tensors_(tensors), config_(config), dtype_(dtype), options_(options), shard_(shard),
        packer_(tensors, dtype, device, options.int8_rows()),
        recurrent_(tensors, config, packer_, options.blocks) {}

  /// Loads the large tables first: while one is packed it is in memory twice.
  Result<LoadedWeights> load(const LayerRange& layers) {
    const ModelConfig& c = config_;
    const bool last = layers.has_head(c.layers);
    TransformerWeights w;
    w.first_layer = layers.first;
    if (layers.first == 0 || last || c.layer_inputs > 0)
      tensors_.read_ahead_tables();
    tensors_.read_ahead_block(layers.first);
    c.fusion ? load_head_tables(w) : load_tables(w, layers.first == 0, last);
    for (int i = layers.first; i < layers.end() && !packer_.error(); ++i) {
      begin_block(i, layers);
      w.blocks.push_back(block(i));
    }
    if (c.fusion)
      load_fusion(w, *c.fusion);
    if (c.layer_inputs > 0)
      load_inputs(w, layers);
    if (last)
      w.final_norm = norm({TensorRole::final_norm}, c.hidden, c.logit_scale);
    for (const RopeConfig& rope : c.ropes)
      w.ropes.push_back(rope_tables(rope));
    return loaded(std::move(w));
  }

  /// Loads linear layers anew; everything else is that of `whole`, a model of the same checkpoint.
  Result<LoadedWeights> load_layers(const Model& whole) {
    TransformerWeights w = *weights_of(whole);
    w.cached = cached_with(w.embedding);
    shared_bytes_ = whole.info().weight_bytes - layer_bytes(w);
    tensors_.read_ahead_block(0);
    for (int i = 0; i < config_.layers && !packer_.error(); ++i) {
      begin_block(i, {0, config_.layers});
      set_layers(w.blocks[std::size_t(i)], i);
    }
    return loaded(std::move(w));
  }

private:
  Result<LoadedWeights> loaded(TransformerWeights&& w) const {
    if (packer_.error())
      return tl::unexpected(*packer_.error());
    return LoadedWeights{std::move(w), packer_.bytes(), shared_bytes_};
  }

  /// Loads what makes these layers' inputs. Its norm takes in the factor of their sum.
  void load_inputs(TransformerWeights& w, const LayerRange& layers) {
    const int width = config_.layer_inputs;
    const int all = config_.layers * width;
    const Range own{layers.first * width, layers.count * width};
    w.input_table = packer_.pack({{{TensorRole::input_table}, config_.vocabulary}}, all, {},
                                 own.count < all ? std::optional(own) : std::nullopt);
    w.input_projection =
        packer_.pack({{{TensorRole::input_projection}, all, false, {own}}}, config_.hidden);
    w.input_norm =
        packer_.norm({TensorRole::input_norm}, config_.layer_inputs, 0, layer_inputs_scale);
  }

  void load_fusion(TransformerWeights& w, const FusionConfig& fusion) {
    if (config_.reads_keys())
      return load_projections(w, fusion);
    const bool before = fusion.joint == Joint::before;
    w.fusion = packer_.pack({{{TensorRole::fusion}, config_.hidden}},
                            before ? 2 * config_.hidden : fusion.features);
    w.fusion_norm = norm({TensorRole::fusion_norm}, config_.hidden);
    for (int i = 0; i < fusion.tap_norms; ++i)
      w.tap_norms.push_back(norm({TensorRole::tap_norm, i}, fusion.features / fusion.tap_norms));
    if (before)
      w.token_norm = norm({TensorRole::token_norm}, config_.hidden);
  }

  /// Loads the products between rows of the other model and those of a narrower head.
  void load_projections(TransformerWeights& w, const FusionConfig& fusion) {
    w.fusion = packer_.pack({{{TensorRole::fusion}, config_.hidden}}, 2 * fusion.width);
    w.fusion_out = packer_.pack({{{TensorRole::fusion_out}, fusion.width}}, config_.hidden);
    if (fusion.clusters)
      w.clusters =
          packer_.pack({{{TensorRole::clusters}, fusion.clusters->clusters}}, config_.hidden);
  }

  /// Returns the rows of the head in the order of its clusters.
  std::vector<Range> rows_by_cluster() const {
    std::vector<Range> rows;
    if (config_.fusion->clusters)
      for (const TokenId id : config_.fusion->clusters->order)
        rows.push_back({id, 1});
    return rows;
  }

  /// Loads a head's tables. One that it lacks is that of the model that it is a head on.
  void load_head_tables(TransformerWeights& w) {
    const TransformerWeights* target = options_.target ? weights_of(*options_.target) : nullptr;
    const auto table = [&](const LayerPart& part, std::shared_ptr<const gpu::Weight> theirs,
                           int cols, const std::optional<gpu::Quantization>& format) {
      const bool shared = !tensors_.has(part.key.role) && theirs && theirs->inputs() == cols &&
                          theirs->outputs() == part.rows;
      return shared ? theirs : packer_.pack({part}, cols, format);
    };
    w.embedding =
        table({{TensorRole::embedding}, config_.vocabulary}, target ? target->embedding : nullptr,
              config_.reads_keys() ? config_.fusion->width : config_.hidden, std::nullopt);
    w.head = table({{TensorRole::head}, config_.logits(), false, rows_by_cluster()},
                   target ? target->head : nullptr, config_.hidden, options_.head);
    w.cached = cached_with(w.embedding);
    if (!packer_.error() && target && w.embedding == target->embedding)
      shared_bytes_ += w.embedding->bytes();
    if (!packer_.error() && target && w.head == target->head && w.head != w.embedding)
      shared_bytes_ += w.head->bytes();
  }

  /// Loads embedding and output head. Tied tables are one: whichever the file has. If it has both,
  /// and they differ, its config.json is wrong, and they are not tied. Only the first stage has the
  /// embedding, and only the last one the head. But each makes its layers' inputs of all rows of
  /// the embedding, which then are the last one's head, too, if that is not divided.
  void load_tables(TransformerWeights& w, bool first, bool last) {
    constexpr TensorKey embedding{TensorRole::embedding};
    constexpr TensorKey head{TensorRole::head};
    const ModelConfig& c = config_;
    const bool has_head = tensors_.has(head.role);
    const bool only_head = c.tied_embedding && has_head && !tensors_.has(embedding.role);
    const bool tied =
        c.tied_embedding && (only_head || !has_head || tensors_.same(embedding, head));
    const LayerPart table = part_of_table(only_head ? head : embedding);
    if (first)
      w.embedding = packer_.pack({table}, c.hidden);
    else if (c.layer_inputs > 0)
      w.embedding = packer_.pack({{table.key, table.rows}}, c.hidden);
    if (first && c.positions && shard_.number == 0) // added once in the sum over shards
      w.positions = packer_.pack(
          {{{TensorRole::positions}, c.positions->rows, false, {{c.positions->first, c.context}}}},
          c.hidden);
    w.cached = w.embedding ? cached_with(w.embedding) : cached_with(table);
    LayerPart own = part_of_table(tied && !only_head ? embedding : head);
    own.bias = c.head_bias;
    if (last)
      w.head = tied && !options_.head && w.embedding && (first || shard_.is_one())
                   ? w.embedding
                   : packer_.pack({own}, c.hidden, options_.head);
    if (!tied)
      return;
    tensors_.ignore(head);
    tensors_.release(head);
  }

  LayerPart part_of_table(TensorKey key) const {
    return {key, config_.vocabulary, false, {shard_.part(config_.vocabulary)}};
  }

  /// Keys and values are bf16 if the embedding is bf16 or blocks of a GGUF file.
  gpu::KvType cached_with(const std::shared_ptr<const gpu::Weight>& embedding) const {
    return options_.cached(embedding && (embedding->format() == WeightFormat::bf16 ||
                                         gpu::has_scaled_codes(embedding->format())));
  }
  /// Decides the same if another stage packs the embedding.
  gpu::KvType cached_with(const LayerPart& embedding) {
    const auto stored =
        packer_.keep(tensors_.matrix(embedding.key, embedding.rows, config_.hidden));
    return options_.cached(stored && !stored->block_scales && dtype_ == gpu::DType::bf16);
  }

  /// Begins a block. The shards of these layers are loaded one after the other.
  void begin_block(int i, const LayerRange& layers) {
    const double done = double(shard_.number * layers.count + i - layers.first + 1) / shard_.of;
    report((layers.first + done) / double(config_.layers + 1));
    tensors_.read_ahead_block(i + 1);
  }

  TransformerBlock block(int i) {
    const ModelConfig& c = config_;
    const auto hidden_norm = [&](TensorRole role) { return norm({role, i}, c.hidden); };
    TransformerBlock b;
    if (c.has_mixer(i)) {
      b.attention_norm = hidden_norm(TensorRole::attention_norm);
      b.attention_post_norm = hidden_norm(TensorRole::attention_post_norm);
    }
    if (c.is_recurrent(i))
      recurrent_.set_constants(b, i);
    if (c.attends(i))
      set_head_norms(b, i);
    if (c.sinks && c.attends(i))
      b.sinks = sinks(i);
    if (c.feeds(i)) {
      b.ffn_norm = hidden_norm(TensorRole::ffn_norm);
      b.ffn_post_norm = hidden_norm(TensorRole::ffn_post_norm);
    }
    if (const MixtureConfig* mixture = c.mixture_in(i))
      set_router(b, i, *mixture);
    if (c.layer_inputs > 0)
      b.input_post_norm = hidden_norm(TensorRole::input_post_norm);
    if (c.layer_scales)
      if (const auto scale = packer_.keep(tensors_.vector({TensorRole::layer_scale, i}, 1)))
        b.scale = scale->front();
    set_layers(b, i);
    return b;
  }

  void set_head_norms(TransformerBlock& b, int i) {
    const ModelConfig& c = config_;
    const int dim = c.head_dim_in(i);
    const bool full = c.qk_norm == QkNorm::full_width;
    if (!c.makes_keys(i)) // Files have what trained without being read.
      for (const TensorRole role : {TensorRole::key, TensorRole::value, TensorRole::key_norm})
        tensors_.ignore({role, i});
    if (c.qk_norm != QkNorm::none)
      b.query_norm = norm({TensorRole::query_norm, i}, full ? c.heads * dim : dim);
    if (c.qk_norm != QkNorm::none && c.makes_keys(i))
      b.key_norm = norm({TensorRole::key_norm, i}, full ? c.kv_heads_in(i) * dim : dim);
    if (c.value_norm && c.makes_keys(i))
      b.value_norm = packer_.upload(std::vector<float>(std::size_t(dim), 1.0f));
  }

  void set_router(TransformerBlock& b, int i, const MixtureConfig& mixture) {
    std::vector<LayerPart> parts{{{TensorRole::router, i}, mixture.experts, mixture.biases}};
    if (mixture.shared_gate)
      parts.push_back({{TensorRole::shared_gate, i}, 1});
    b.router = packer_.pack(parts, config_.hidden);
    const auto of_experts = [&](TensorRole role) {
      const auto values = packer_.keep(tensors_.vector({role, i}, mixture.experts));
      return values ? packer_.upload(*values) : nullptr;
    };
    if (mixture.choice_bias)
      b.choice_bias = of_experts(TensorRole::choice_bias);
    if (!mixture.apart)
      return;
    const int hidden = config_.hidden;
    b.expert_scales = of_experts(TensorRole::expert_scales);
    b.router_norm = norm({TensorRole::router_norm, i}, hidden, 1 / std::sqrt(float(hidden)));
    b.expert_norm = norm({TensorRole::expert_norm, i}, hidden);
    b.expert_post_norm = norm({TensorRole::expert_post_norm, i}, hidden);
    b.shared_post_norm = norm({TensorRole::shared_post_norm, i}, hidden);
  }

  /// Loads the sinks of the shard's own heads.
  std::shared_ptr<gpu::Buffer> sinks(int i) {
    const auto all = packer_.keep(tensors_.vector({TensorRole::sinks, i}, config_.heads));
    const Range own = shard_.heads(config_);
    return all ? packer_.upload({all->begin() + own.first, all->begin() + own.first + own.count})
               : nullptr;
  }

  void set_layers(TransformerBlock& b, int i) {
    const ModelConfig& c = config_;
    const bool adds_bias = shard_.number == 0; // added once in the sum over shards
    const Range heads = shard_.heads(c);
    if (c.is_recurrent(i)) {
      recurrent_.set_products(b, i);
    } else if (c.attends(i)) {
      const int dim = c.head_dim_in(i);
      b.qkv = query_key_value(i);
      b.attention_out =
          columns({{{TensorRole::attention_out, i}, c.hidden, c.attention_out_bias && adds_bias}},
                  c.heads * dim, {heads.first * dim, heads.count * dim});
    }
    if (c.layer_inputs > 0) {
      b.input_gate = layer({{{TensorRole::input_gate, i}, c.layer_inputs}}, c.hidden);
      b.input_out = layer({{{TensorRole::input_out, i}, c.hidden}}, c.layer_inputs);
    }
    if (const MixtureConfig* mixture = c.mixture_in(i))
      return set_experts(b, i, *mixture);
    if (!c.feeds(i))
      return;
    b.gate_up = gates_and_ups({TensorRole::gate_up, i}, c.ffn_in(i), c.ffn_bias);
    b.down = columns({{{TensorRole::down, i}, c.hidden, c.ffn_bias && adds_bias}}, c.ffn_in(i),
                     shard_.part(c.ffn_in(i)));
  }

  /// Packs the layers of all experts as two, in which each expert's outputs are together.
  void set_experts(TransformerBlock& b, int i, const MixtureConfig& mixture) {
    const Range own = shard_.part(mixture.ffn);
    const bool adds_bias = shard_.number == 0; // as in set_layers
    std::vector<LayerPart> gate_up;
    std::vector<LayerPart> down;
    for (int e = 0; e < mixture.experts; ++e) {
      for (const TensorRole role : {TensorRole::gate, TensorRole::up})
        if (config_.gated || role == TensorRole::up)
          gate_up.push_back({{role, i, e}, mixture.ffn, mixture.biases, {own}});
      down.push_back({{TensorRole::down, i, e}, config_.hidden, mixture.biases && adds_bias});
    }
    b.gate_up = layer(gate_up, config_.hidden);
    b.down = columns(down, mixture.ffn, own);
    if (mixture.shared_ffn == 0)
      return;
    const Range shared = shard_.part(mixture.shared_ffn);
    b.shared_gate_up =
        gates_and_ups({TensorRole::gate_up, i, shared_expert}, mixture.shared_ffn, false);
    b.shared_down = columns({{{TensorRole::down, i, shared_expert}, config_.hidden}},
                            mixture.shared_ffn, shared);
  }

  std::shared_ptr<const gpu::Weight> query_key_value(int i) {
    const ModelConfig& c = config_;
    const int dim = c.head_dim_in(i);
    const int queries = c.heads * dim;
    const int keys = c.kv_heads_in(i) * dim;
    const int inputs = c.reads_beside(i) ? 2 * c.hidden : c.hidden;
    const auto behind = [&](int before, Range heads) {
      return Range{before + heads.first * dim, heads.count * dim};
    };
    const Range kv = shard_.kv_heads(c.kv_heads_in(i));
    const Range query = behind(0, shard_.heads(c));
    if (!c.makes_keys(i))
      return layer({{{TensorRole::query, i}, queries, c.qkv_bias, {query}}}, inputs);
    if (c.mixers[std::size_t(i)].keys_as_values)
      return layer({{{TensorRole::query, i}, queries, c.qkv_bias, {query}},
                    {{TensorRole::key, i}, keys, c.qkv_bias, {behind(0, kv), behind(0, kv)}}},
                   inputs);
    if (tensors_.has(TensorRole::query_key_value))
      return layer({{{TensorRole::query_key_value, i},
                     queries + 2 * keys,
                     c.qkv_bias,
                     {query, behind(queries, kv), behind(queries + keys, kv)}}},
                   inputs);
    if (c.output_gate)
      return layer({gates_and_queries(i, shard_.heads(c)),
                    {{TensorRole::key, i}, keys, c.qkv_bias, {behind(0, kv)}},
                    {{TensorRole::value, i}, keys, c.qkv_bias, {behind(0, kv)}}},
                   inputs);
    return layer({{{TensorRole::query, i}, queries, c.qkv_bias, {query}},
                  {{TensorRole::key, i}, keys, c.qkv_bias, {behind(0, kv)}},
                  {{TensorRole::value, i}, keys, c.qkv_bias, {behind(0, kv)}}},
                 inputs);
  }

  /// Returns the gates of all heads above their queries. In the file each head's gate follows its
  /// query.
  LayerPart gates_and_queries(int i, Range heads) const {
    const int dim = config_.head_dim_in(i);
    LayerPart part{{TensorRole::query, i}, 2 * config_.heads * dim, config_.qkv_bias, {}};
    for (const bool gate : {true, false})
      for (int head = heads.first; head < heads.first + heads.count; ++head)
        part.own.push_back({(2 * head + gate) * dim, dim});
    return part;
  }

  /// Packs gates, if it has such, and ups of a feed-forward. key: that of a tensor of both.
  std::shared_ptr<const gpu::Weight> gates_and_ups(TensorKey key, int ffn, bool bias) {
    const Range own = shard_.part(ffn);
    if (!config_.gated)
      return layer({{{TensorRole::up, key.block, key.expert}, ffn, bias, {own}}}, config_.hidden);
    if (tensors_.has(TensorRole::gate_up))
      return layer({{key, 2 * ffn, bias, {own, {ffn + own.first, own.count}}}}, config_.hidden);
    return layer({{{TensorRole::gate, key.block, key.expert}, ffn, bias, {own}},
                  {{TensorRole::up, key.block, key.expert}, ffn, bias, {own}}},
                 config_.hidden);
  }

  /// Packs a linear layer of a block.
  std::shared_ptr<const gpu::Weight> layer(const std::vector<LayerPart>& parts, int cols) {
    return packer_.pack(parts, cols, options_.blocks);
  }
  /// Packs a linear layer whose inputs are divided among the shards.
  std::shared_ptr<const gpu::Weight> columns(const std::vector<LayerPart>& parts, int cols,
                                             const Range& own) {
    return packer_.pack(parts, cols, options_.blocks,
                        shard_.is_one() ? std::nullopt : std::optional(own));
  }

  /// Returns null if the family has no such norm. size: that of a norm of rows, or of heads.
  Norm norm(TensorKey key, int size, float times = 1) {
    if (config_.layer_norms)
      return packer_.layer_norm(key, size);
    return packer_.norm(key, size, config_.norms_plus_one ? 1 : 0, times);
  }

  /// Makes tables of cos and sin. Angles are products of f32, as in the implementations that models
  /// are trained with.
  RopeBuffers rope_tables(const RopeConfig& rope) {
    const std::size_t angles = std::size_t(config_.context) * rope.frequencies.size();
    if (packer_.error())
      return {};
    if (2 * angles * sizeof(float) > limits::rope_table_bytes_max) {
      packer_.fail_with(
          {ErrorCode::out_of_memory,
           fmt::format("{} positions take too large a table of rotations", config_.context),
           "lower EngineOptions::max_model_len"});
      return {};
    }
    std::vector<float> cos;
    std::vector<float> sin;
    cos.reserve(angles);
    sin.reserve(angles);
    for (int position = 0; position < config_.context; ++position) {
      for (const float frequency : rope.frequencies) {
        const float angle = float(position) * frequency;
        cos.push_back(rope.factor * std::cos(angle));
        sin.push_back(rope.factor * std::sin(angle));
      }
    }
    RopeBuffers out;
    out.cos = packer_.upload(cos);
    out.sin = packer_.upload(sin);
    return out;
  }

  /// Tells the caller how far loading is, and looks whether it should stop.
  void report(double done) {
    if (options_.progress)
      options_.progress("weights", done);
    if (options_.stop.stop_requested())
      packer_.fail_with({ErrorCode::cancelled, "loading was cancelled"});
  }

  TensorSource& tensors_;
  const ModelConfig& config_;
  const gpu::DType dtype_;
  const LoadOptions& options_;
  const Shard shard_;
  Packer packer_;
  const RecurrentLoader recurrent_;
  std::size_t shared_bytes_ = 0;
};

} // namespace

Result<LoadedWeights> load_weights(TensorSource& tensors, const ModelConfig& config,
                                   gpu::DType dtype, gpu::Device& device,
                                   const LoadOptions& options, const LayerRange& layers,
                                   const Shard& shard) {
  Loader loader(tensors, config, dtype, device, options, shard);
  return options.shared ? loader.load_layers(*options.shared) : loader.load(layers);
}

} // namespace paceline::models
