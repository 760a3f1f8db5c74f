#include "models/transformer_shard.hpp"

#include "models/row_products.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::models {
namespace {

Result<std::shared_ptr<gpu::Buffer>> allocate_near(gpu::Device& device, const gpu::Device* readers,
                                                   std::size_t bytes) {
  if (readers)
    if (auto reached = device.allocate_reached_by({&readers, 1}, bytes); !reached || *reached)
      return reached;
  return device.allocate(bytes);
}

} // namespace

Result<gpu::Tensor> TransformerWorkspace::allocate(gpu::Device& device, int height, int width,
                                                   const gpu::Device* readers) {
  const std::size_t bytes = std::size_t(height) * std::size_t(width) * sizeof(float);
  auto buffer = allocate_near(device, readers, bytes);
  if (!buffer)
    return tl::unexpected(buffer.error());
  buffers_.push_back(std::move(*buffer));
  return buffers_.back()->tensor(height, width);
}

TransformerShard::TransformerShard(const ModelConfig& config, TransformerWeights weights,
                                   std::shared_ptr<gpu::Device> device, Shard place)
    : config_(place.config(config)), weights_(std::move(weights)), device_(std::move(device)),
      place_(place), vocabulary_(place.part(config.vocabulary)),
      logits_(place.part(config.logits())) {
  for (std::size_t i = 0; i < weights_.ropes.size(); ++i) {
    const int pairs = int(config_.ropes[i].frequencies.size());
    ropes_.push_back({weights_.ropes[i].cos->tensor(config_.context, pairs),
                      weights_.ropes[i].sin->tensor(config_.context, pairs)});
  }
}

std::vector<std::shared_ptr<const gpu::Weight>> TransformerShard::dense_weights() const {
  std::vector<std::shared_ptr<const gpu::Weight>> all;
  for (const TransformerBlock& block : weights_.blocks) {
    if (block.qkv)
      all.insert(all.end(), {block.qkv, block.attention_out});
    if (block.down && !block.router)
      all.insert(all.end(), {block.gate_up, block.down});
    if (block.shared_down)
      all.insert(all.end(), {block.shared_gate_up, block.shared_down});
    if (block.input_gate)
      all.insert(all.end(), {block.input_gate, block.input_out});
  }
  if (weights_.input_projection)
    all.push_back(weights_.input_projection);
  return all;
}

std::vector<std::shared_ptr<const gpu::Weight>> TransformerShard::small_weights() const {
  std::vector<std::shared_ptr<const gpu::Weight>> all;
  for (const TransformerBlock& block : weights_.blocks)
    for (const auto& weight : {block.rates, block.router})
      if (weight)
        all.push_back(weight);
  return all;
}

std::vector<std::shared_ptr<const gpu::Weight>> TransformerShard::expert_weights() const {
  std::vector<std::shared_ptr<const gpu::Weight>> all;
  for (const TransformerBlock& block : weights_.blocks)
    if (block.router)
      all.insert(all.end(), {block.gate_up, block.down});
  return all;
}

Result<void> TransformerShard::allocate(TransformerWorkspace& workspace, const gpu::Device& group,
                                        int max_rows, int max_logit_rows) const {
  const ModelConfig& c = config_;
  int qkv = 0;
  int attended = 0;
  int ffn = 0;
  for (int i = weights_.first_layer; i < weights_.first_layer + layers(); ++i) {
    qkv = std::max(qkv, c.mixer_outputs(i));
    attended = std::max(attended, c.mixer_values(i));
    if (!c.mixture_in(i))
      ffn = std::max(ffn, c.ffn_in(i));
  }
  const int rates = c.recurrence && !c.recurrence->sums() ? c.recurrence->rule.rates() : 0;
  const int apart = c.mixture && c.mixture->apart ? 2 * c.hidden : 0;
  const int addend = place_.is_one() ? 0 : std::max(c.hidden, apart);
  ShardSpace& space = workspace.shards[std::size_t(place_.number)];
  struct Part {
    gpu::Tensor* tensor;
    int rows;
    int cols;
    const gpu::Device* readers = nullptr;
  };
  const bool blocks = !is_tail();
  const bool narrows = blocks && ends();
  const int rows = blocks ? max_rows : max_logit_rows;
  const MixtureConfig mixture = blocks ? c.mixture.value_or(MixtureConfig()) : MixtureConfig();
  const ClusterConfig clusters =
      c.fusion ? c.fusion->clusters.value_or(ClusterConfig()) : ClusterConfig();
  const int picks = rows * mixture.top_k;
  const std::size_t routing = gpu::Routing::bytes(rows, mixture.experts, mixture.top_k);
  const Part parts[] = {
      {&space.all.residual, rows, c.hidden},
      {&space.all.normed, rows, c.hidden},
      {&space.all.qkv, rows, blocks ? qkv : 0},
      {&space.all.attended, rows, blocks ? attended : 0},
      {&space.rates, rows, blocks ? rates : 0},
      {&space.all.gate_up, rows, c.gated ? 2 * ffn : 0},
      {&space.all.activated, rows, ffn},
      {&space.mixture.scores, rows, mixture.experts + mixture.shared_gate},
      {&space.mixture.gate_up, picks, c.gated ? 2 * mixture.ffn : 0},
      {&space.mixture.activated, picks, mixture.ffn},
      {&space.mixture.out, picks, mixture.experts > 0 ? c.hidden : 0},
      {&space.mixture.routing, 1, mixture.experts > 0 ? int(routing / sizeof(float)) : 0},
      {&space.mixture.shared_gate_up, rows, c.gated ? 2 * mixture.shared_ffn : 0},
      {&space.mixture.shared_activated, rows, mixture.shared_ffn},
      {&space.mixture.apart, rows, blocks ? apart : 0},
      {&space.inputs.all, rows, layers() * c.layer_inputs},
      {&space.inputs.projected, rows, layers() * c.layer_inputs},
      {&space.inputs.gated, rows, 2 * c.layer_inputs},
      {&space.inputs.activated, rows, c.layer_inputs},
      {&space.last, max_logit_rows, narrows ? c.hidden : 0},
      {&space.last_qkv, max_logit_rows, narrows ? qkv : 0},
      {&space.last_attended, max_logit_rows, narrows && c.has_states() ? attended : 0},
      {&space.tapped, max_rows, c.reads_beside(0) || c.reads_keys() ? c.fusion->features : 0},
      {&space.fused, max_rows, c.fusion ? 2 * std::max(c.hidden, c.fusion->width) : 0},
      {&space.nearness, max_logit_rows, clusters.clusters},
      {&space.chosen, 1,
       int(gpu::Routing::bytes(max_logit_rows, clusters.clusters, clusters.used) / sizeof(float))},
      {&space.said, max_logit_rows * clusters.used,
       clusters.used > 0 ? c.logits() / clusters.clusters : 0},
      {&space.addends[0], max_rows, addend, &group},
      {&space.addends[1], max_rows, addend, &group}};
  for (const Part& part : parts) {
    if (part.cols == 0)
      continue;
    auto tensor = workspace.allocate(*device_, part.rows, part.cols, part.readers);
    if (!tensor)
      return tl::unexpected(tensor.error());
    *part.tensor = *tensor;
  }
  if (is_last())
    space.logits = workspace.logit_rows.columns(logits_.first, logits_.count);
  return {};
}

double TransformerShard::cache_width() const {
  if (weights_.cached != gpu::KvType::int8)
    return 1;
  const auto in_bf16 = config_.token_bytes(weights_.first_layer, layers(), gpu::KvType::bf16);
  return in_bf16 > 0 ? double(token_bytes()) / double(in_bf16) : 1;
}

std::vector<gpu::KvLayout> TransformerShard::layouts(int page_tokens) const {
  const int first = weights_.first_layer;
  std::vector<gpu::KvLayout> all(std::size_t(layers()), gpu::KvLayout{.page_tokens = page_tokens});
  for (int i = 0; i < layers(); ++i)
    if (config_.attends(first + i))
      all[std::size_t(i)] = config_.pages_of(first + i, first, page_tokens, weights_.cached);
  return all;
}

void TransformerShard::plan(const gpu::KvPool& pool, TransformerWorkspace& workspace) const {
  ShardSpace& own = workspace.shards[std::size_t(place_.number)];
  own.pool = &pool.shard(place_.number);
  if (own.layouts.empty() || own.layouts.front().page_tokens != pool.shape().page_tokens)
    own.layouts = layouts(pool.shape().page_tokens);
  own.states = {own.pool, states(), 0};
  own.tokens.clear();
  if (place_.number > 0 && is_first())
    for (const TokenId token : workspace.tokens)
      own.tokens.push_back(token - vocabulary_.first);
}

TransformerShard::Pass::Pass(const TransformerShard& shard, TransformerWorkspace& workspace)
    : shard_(shard), space_(workspace), own_(workspace.shards[std::size_t(shard.place_.number)]),
      map_(&workspace.rows),
      at_(own_.all.first(shard.is_tail() ? int(workspace.wanted.size()) : workspace.rows.rows())) {
  at_.fast = workspace.fast;
}

/// Leaves `rows` in the pages, a layer's input, if a head reads it.
void TransformerShard::Pass::tap(gpu::Operations& operations, int layer, gpu::Tensor rows) const {
  const ModelConfig& c = config();
  for (std::size_t i = 0; i < c.taps.size(); ++i)
    if (c.taps[i] == layer)
      operations.scatter(space_.features.own.columns(int(i) * c.hidden, c.hidden), rows,
                         space_.features.left);
}

/// Leaves a layer's keys and values there, behind those inputs, if a head reads them.
void TransformerShard::Pass::tap_keys(gpu::Operations& operations, int i) const {
  const ModelConfig& c = config();
  int at = int(c.taps.size()) * c.hidden;
  for (const int layer : c.key_taps) {
    const int numbers = c.key_values(layer);
    if (layer == number(i))
      operations.scatter(space_.features.own.columns(at, numbers),
                         queries(i).columns(c.heads * c.head_dim_in(layer), numbers),
                         space_.features.left);
    at += numbers;
  }
}

void TransformerShard::Pass::normalise(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor in,
                                       const Norm& norm) const {
  const float* const weight = floats(norm);
  if (config().layer_norms)
    operations.layer_norm(out, in, weight, weight + in.cols, config().norm_epsilon);
  else
    operations.rms_norm(out, in, weight, config().norm_epsilon);
}

/// Returns what a sublayer reads: the residual, normalised if the family has a norm before it.
gpu::Tensor TransformerShard::Pass::input(gpu::Operations& operations, const Norm& norm) const {
  if (!norm)
    return at_.residual;
  normalise(operations, at_.normed, at_.residual, norm);
  return at_.normed;
}

/// Returns where a sublayer's output is put, before what is behind it.
gpu::Tensor TransformerShard::Pass::given(const Behind& behind) const {
  return behind.first_half ? own_.mixture.apart.slice(0, rows()) : at_.normed;
}

/// Adds a sublayer's output to the residual, normalised if the family has a norm behind it. A shard
/// leaves its part for `add_up`. give(out, add): sets `out` to the output, or adds it.
template <class F>
void TransformerShard::Pass::output(gpu::Operations& operations, const Behind& behind,
                                    const F& give) {
  if (!shard_.place_.is_one()) {
    behind_ = behind;
    return give(addend(own_, given(behind).cols), false);
  }
  if (!behind.norm)
    return give(at_.residual, true);
  give(given(behind), false);
  add_normed(operations, behind);
}

/// Adds to the residual what `given` holds.
void TransformerShard::Pass::add_normed(gpu::Operations& operations, const Behind& behind) {
  const int hidden = config().hidden;
  const float epsilon = config().norm_epsilon;
  if (behind.first_half) {
    const gpu::Tensor halves = given(behind);
    operations.rms_norm(at_.normed, halves.columns(0, hidden), behind.first_half, epsilon);
    operations.rms_norm_add(at_.normed, halves.columns(hidden, hidden), behind.second_half, epsilon,
                            1);
  }
  operations.rms_norm_add(at_.residual, at_.normed, behind.norm, epsilon, behind.scale);
}

void TransformerShard::Pass::add_up(gpu::Operations& operations) {
  const Behind behind = std::exchange(behind_, {});
  const gpu::Tensor sum = given(behind);
  parts_.clear();
  for (const ShardSpace& shard : space_.shards)
    parts_.push_back(addend(shard, sum.cols));
  ++sums_;
  if (behind.norm) {
    operations.sum(sum, parts_, false);
    add_normed(operations, behind);
  } else {
    operations.sum(at_.residual, parts_, !std::exchange(begins_, false));
  }
}

void TransformerShard::Pass::store(gpu::Operations& operations, int i) {
  const TransformerBlock& b = block(i);
  const ModelConfig& c = config();
  tap(operations, number(i), at_.residual);
  if (!c.has_mixer(number(i)))
    return;
  if (is_recurrent(i))
    return advance(operations, i);
  multiply(operations, at_.qkv.columns(0, b.qkv->outputs()),
           c.reads_beside(number(i)) ? own_.fused.slice(0, rows())
                                     : input(operations, b.attention_norm),
           *b.qkv, at_.fast);
  gpu::HeadNorms norms{.epsilon = c.norm_epsilon, .value = floats(b.value_norm)};
  if (c.qk_norm == QkNorm::per_head) {
    norms.query = floats(b.query_norm);
    norms.key = floats(b.key_norm);
  }
  if (c.qk_norm == QkNorm::full_width)
    norm_full_width(operations, i);
  operations.rope_store(queries(i), c.heads, rotation(i), norms, *map_, cache(i));
  tap_keys(operations, i);
}

/// Returns the rotation of a layer by the positions of rows. Rows of a head that reads keys of the
/// other model are rotated as its token, which stands behind them.
gpu::RopeTable TransformerShard::Pass::rotation(int i) const {
  const int rope = layer(i).rope;
  if (rope < 0)
    return {};
  const gpu::RopeTable& table = shard_.ropes_[std::size_t(rope)];
  if (!config().reads_keys())
    return table;
  const int behind = table.cos.rows - 1;
  return {table.cos.slice(1, behind), table.sin.slice(1, behind)};
}

/// Returns queries, and keys and values if the layer has its own, without the gates before them.
gpu::Tensor TransformerShard::Pass::queries(int i) const {
  const ModelConfig& c = config();
  const int gates = c.output_gate ? c.heads * c.head_dim_in(number(i)) : 0;
  return at_.qkv.columns(gates, c.attention_outputs(number(i)) - gates);
}

/// Normalises all queries of a row together, and all keys (OLMo 2).
void TransformerShard::Pass::norm_full_width(gpu::Operations& operations, int i) const {
  const ModelConfig& c = config();
  const int dim = c.head_dim_in(number(i));
  const gpu::Tensor all = queries(i);
  const gpu::Tensor own = all.columns(0, c.heads * dim);
  const gpu::Tensor keys = all.columns(own.cols, c.kv_heads_in(number(i)) * dim);
  operations.rms_norm(own, own, floats(block(i).query_norm), c.norm_epsilon);
  operations.rms_norm(keys, keys, floats(block(i).key_norm), c.norm_epsilon);
}

void TransformerShard::Pass::narrow(gpu::Operations& operations, int i) {
  const int wanted = int(space_.wanted.size());
  Activations out = own_.all.first(wanted);
  out.residual = own_.last.slice(0, wanted);
  out.qkv = own_.last_qkv.slice(0, wanted);
  operations.gather(out.residual, at_.residual, space_.wanted);
  if (config().has_mixer(number(i)))
    operations.gather(out.qkv, at_.qkv, space_.wanted);
  if (is_recurrent(i)) {
    out.attended = own_.last_attended.slice(0, wanted);
    operations.gather(out.attended, at_.attended, space_.wanted);
  }
  at_ = out;
  map_ = &space_.wanted_rows;
}

/// Adds what a recurrent layer gives.
void TransformerShard::Pass::give_values(gpu::Operations& operations, int i) {
  const gpu::Tensor values = given_values(operations, i);
  output(operations, {floats(block(i).attention_post_norm)}, [&](gpu::Tensor out, bool add) {
    multiply(operations, out, values, *block(i).attention_out, at_.fast, add);
  });
}

void TransformerShard::Pass::attend(gpu::Operations& operations, int i) {
  if (is_recurrent(i))
    return give_values(operations, i);
  const ModelConfig& c = config();
  const gpu::Tensor attended = at_.attended.columns(0, c.heads * c.head_dim_in(number(i)));
  operations.attention(
      attended, queries(i), c.heads,
      {c.attention_scale, c.attention_soft_cap, layer(i).window, floats(block(i).sinks)}, *map_,
      cache(i));
  if (c.output_gate)
    operations.scale_by_sigmoid(attended, at_.qkv.columns(0, attended.cols));
  output(operations, {floats(block(i).attention_post_norm)}, [&](gpu::Tensor out, bool add) {
    multiply(operations, out, attended, *block(i).attention_out, at_.fast, add);
  });
}

void TransformerShard::Pass::feed_forward(gpu::Operations& operations, int i) {
  const TransformerBlock& b = block(i);
  b.router ? feed_experts(operations, b) : feed_dense(operations, i);
}

/// Returns what is behind a feed-forward; the layer's factor, if it ends the layer.
TransformerShard::Pass::Behind
TransformerShard::Pass::behind_feed_forward(const TransformerBlock& b) const {
  return {floats(b.ffn_post_norm), b.input_gate ? 1 : b.scale, floats(b.expert_post_norm),
          floats(b.shared_post_norm)};
}

/// Makes what the last product of a feed-forward reads. made: memory for gates and ups, or for
/// nothing.
void TransformerShard::Pass::activate(gpu::Operations& operations, gpu::Tensor out,
                                      gpu::Tensor made, gpu::Tensor in,
                                      const gpu::Weight& w) const {
  if (config().gated)
    return multiply_and_gate(operations, out, made, in, w, config().gating, at_.fast);
  multiply(operations, out, in, w, at_.fast);
  operations.activate(out, out, config().gating.activation);
}

void TransformerShard::Pass::feed_dense(gpu::Operations& operations, int i) {
  const TransformerBlock& b = block(i);
  const bool same_norm = config().parallel && !b.ffn_norm;
  const int ffn = config().ffn_in(number(i));
  const gpu::Tensor activated = at_.activated.columns(0, ffn);
  const gpu::Tensor made = config().gated ? at_.gate_up.columns(0, 2 * ffn) : gpu::Tensor();
  activate(operations, activated, made,
           input(operations, same_norm ? b.attention_norm : b.ffn_norm), *b.gate_up);
  output(operations, behind_feed_forward(b), [&](gpu::Tensor out, bool add) {
    multiply(operations, out, activated, *b.down, at_.fast, add);
  });
}

void TransformerShard::Pass::add_input(gpu::Operations& operations, int i) {
  const TransformerBlock& b = block(i);
  const int width = config().layer_inputs;
  const gpu::Tensor gated = own_.inputs.gated.slice(0, rows());
  const gpu::Tensor activated = own_.inputs.activated.slice(0, rows());
  const bool narrow = map_ == &space_.wanted_rows;
  multiply(operations, gated.columns(0, width), at_.residual, *b.input_gate, at_.fast);
  operations.gather(gated.columns(width, width), own_.inputs.all.columns(i * width, width),
                    narrow ? std::span<const std::int32_t>(space_.wanted)
                           : space_.first_rows(rows()));
  operations.gate(activated, gated, config().gating);
  multiply(operations, at_.normed, activated, *b.input_out, at_.fast);
  add_normed(operations, {floats(b.input_post_norm), b.scale});
}

/// Feeds rows to the experts that the router chooses. Every shard has the whole router and a part
/// of each expert, as of a dense layer. An expert has too few rows for the fast path.
void TransformerShard::Pass::feed_experts(gpu::Operations& operations, const TransformerBlock& b) {
  const MixtureConfig& mixture = *config().mixture;
  const MixtureSpace& space = own_.mixture;
  const auto routing = gpu::Routing::in(reinterpret_cast<std::byte*>(space.routing.data), rows(),
                                        mixture.experts, mixture.top_k);
  const bool apart = mixture.apart;
  gpu::Tensor in = input(operations, apart ? b.router_norm : b.ffn_norm);
  const gpu::Tensor scores = space.scores.slice(0, rows());
  const gpu::Tensor activated = space.activated.slice(0, routing.picks());
  const gpu::Tensor made = config().gated ? space.gate_up.slice(0, routing.picks()) : activated;
  const gpu::Tensor picked = space.out.slice(0, routing.picks());
  operations.linear(scores, in, *b.router);
  gpu::RouterOptions options = mixture.router;
  options.expert_scales = floats(b.expert_scales);
  operations.route(routing, scores.columns(0, mixture.experts), floats(b.choice_bias), options);
  if (apart)
    in = input(operations, b.expert_norm);
  operations.expert_linear(made, in, gpu::RoutedRows::by_row, *b.gate_up, routing);
  if (config().gated)
    operations.gate(activated, made, config().gating);
  else
    operations.activate(activated, made, config().gating.activation);
  operations.expert_linear(picked, activated, gpu::RoutedRows::by_slot, *b.down, routing);
  if (b.shared_down)
    activate_shared(operations, b, apart ? input(operations, b.ffn_norm) : in, scores);
  output(operations, behind_feed_forward(b), [&](gpu::Tensor out, bool add) {
    const int hidden = config().hidden;
    operations.combine(out.columns(0, hidden), picked, routing, add);
    if (b.shared_down) // beside the experts' output, or added to it
      multiply(operations, out.columns(apart ? hidden : 0, hidden),
               space.shared_activated.slice(0, rows()), *b.shared_down, at_.fast, !apart);
  });
}

/// Computes what the shared expert's last product reads. The factor of its output, the same for all
/// of a row, is multiplied in before that product, which then adds to what the others give.
void TransformerShard::Pass::activate_shared(gpu::Operations& operations, const TransformerBlock& b,
                                             gpu::Tensor in, gpu::Tensor scores) const {
  const gpu::Tensor activated = own_.mixture.shared_activated.slice(0, rows());
  activate(operations, activated, own_.mixture.shared_gate_up.slice(0, rows()), in,
           *b.shared_gate_up);
  if (config().mixture->shared_gate)
    operations.scale_by_sigmoid(activated, scores.columns(config().mixture->experts, 1));
}

} // namespace paceline::models
