// How rows come into a transformer's layers, and how they leave them.
#include "models/row_products.hpp"
#include "models/transformer_shard.hpp"

#include <cmath>
#include <utility>

namespace paceline::models {

void TransformerShard::Pass::enter(gpu::Operations& operations) {
  begins_ = !shard_.place_.is_one() && shard_.is_first();
  if (config().reads_keys())
    join_whole(operations);
  else if (config().fusion)
    join(operations);
  else if (shard_.is_first())
    embed(operations, begins_ ? addend(own_, config().hidden) : at_.residual);
  else
    operations.gather(at_.residual, space_.received, space_.first_rows(rows()));
}

void TransformerShard::Pass::embed(gpu::Operations& operations, gpu::Tensor out) const {
  embed_tokens(operations, out, *shard_.weights_.embedding,
               shard_.place_.number > 0 ? own_.tokens : space_.tokens, config().embedding_scale);
  if (shard_.weights_.positions)
    operations.embed_add(out, *shard_.weights_.positions, space_.rows.position);
}

void TransformerShard::Pass::embed_tokens(gpu::Operations& operations, gpu::Tensor out,
                                          const gpu::Weight& table,
                                          const std::vector<TokenId>& tokens, float scale) const {
  if (!space_.drawn.empty())
    operations.embed_drawn(out, table, space_.drawn, scale);
  else
    operations.embed(out, table, tokens, scale);
}

// A layer's input is the sum of a token's own part and a projection of its embedding, which is
// normalised: of the layer as a row of its own. Its factor hidden^-1/2 is left to the norm.
void TransformerShard::Pass::make_inputs(gpu::Operations& operations) {
  const ModelConfig& c = config();
  const TransformerWeights& weights = shard_.weights_;
  const int width = c.layer_inputs;
  const gpu::Tensor all = own_.inputs.all.slice(0, rows());
  const gpu::Tensor projected = own_.inputs.projected.slice(0, rows());
  const auto by_layer = [&](gpu::Tensor t) {
    return gpu::Tensor{t.data, rows() * shard_.layers(), width, width};
  };
  const gpu::Tensor embedded = shard_.is_first() ? at_.residual : at_.normed;
  if (!shard_.is_first())
    embed_tokens(operations, embedded, *weights.embedding, space_.tokens, c.embedding_scale);
  embed_tokens(operations, all, *weights.input_table, space_.tokens,
               layer_inputs_scale * std::sqrt(float(width)));
  multiply(operations, projected, embedded, *weights.input_projection, at_.fast);
  operations.rms_norm_add(by_layer(all), by_layer(projected), floats(weights.input_norm),
                          c.norm_epsilon * float(c.hidden), 1);
}

/// Sets the residual to the features of the position before each row. Several of the target are
/// combined into one; the head's own, where it goes on alone, are as its last row left them.
void TransformerShard::Pass::take_features(gpu::Operations& operations) const {
  const FeaturePlan& plan = space_.features;
  if (const int rows = plan.tapped.rows()) {
    const gpu::Tensor one = at_.normed.slice(0, rows);
    if (config().reads_beside(0)) {
      const gpu::Tensor tapped = own_.tapped.slice(0, rows);
      operations.gather(tapped, plan.target, plan.tapped.from);
      norm_taps(operations, tapped);
      operations.linear(one, tapped, *shard_.weights_.fusion);
    } else {
      operations.gather(one, plan.target, plan.tapped.from);
    }
    operations.scatter(at_.residual, one, plan.tapped.to);
  }
  if (const int rows = plan.drafted.rows()) {
    operations.gather(at_.normed.slice(0, rows), plan.own, plan.drafted.from);
    operations.scatter(at_.residual, at_.normed.slice(0, rows), plan.drafted.to);
  }
}

void TransformerShard::Pass::norm_taps(gpu::Operations& operations, gpu::Tensor tapped) const {
  const std::vector<Norm>& norms = shard_.weights_.tap_norms;
  const int width = norms.empty() ? 0 : tapped.cols / int(norms.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const gpu::Tensor part = tapped.columns(int(i) * width, width);
    operations.rms_norm(part, part, floats(norms[i]), config().norm_epsilon);
  }
}

/// Joins the embedding of a token with the features of the position before, each normalised. Either
/// the first block reads both, and the features are the residual, or a product of both is.
void TransformerShard::Pass::join(gpu::Operations& operations) const {
  const TransformerWeights& weights = shard_.weights_;
  const bool beside = config().reads_beside(0);
  take_features(operations);
  const int hidden = config().hidden;
  const float epsilon = config().norm_epsilon;
  const gpu::Tensor fused = own_.fused.slice(0, rows());
  embed(operations, at_.normed);
  operations.rms_norm(fused.columns(0, hidden), at_.normed,
                      floats(beside ? weights.blocks.front().attention_norm : weights.token_norm),
                      epsilon);
  operations.rms_norm(fused.columns(hidden, hidden), at_.residual, floats(weights.fusion_norm),
                      epsilon);
  if (!beside)
    operations.linear(at_.residual, fused, *weights.fusion);
  else if (config().fusion->norm_before_residual)
    operations.rms_norm(at_.residual, at_.residual, floats(weights.fusion_norm), epsilon);
}

// They lie behind the row in the features, in the order of the layers that store them.
void TransformerShard::Pass::take_keys(gpu::Operations& operations) const {
  const FeaturePlan& plan = space_.features;
  const gpu::Tensor tapped = own_.tapped.slice(0, int(plan.given.size()));
  operations.gather(tapped, plan.target, plan.given);
  int at = config().fusion->width;
  for (int i = 0; i < shard_.layers(); ++i) {
    if (!config().stores(number(i)))
      continue;
    const int numbers = config().key_values(number(i));
    operations.rope_store(tapped.columns(at, numbers), 0, {}, {}, plan.given_rows, cache(i));
    at += numbers;
  }
}

/// Sets the residual to a product of a token's embedding and the features of the position before,
/// both as wide as the other model's rows.
void TransformerShard::Pass::join_whole(gpu::Operations& operations) const {
  const FeaturePlan& plan = space_.features;
  const int width = config().fusion->width;
  const gpu::Tensor fused = own_.fused.slice(0, rows());
  embed(operations, fused.columns(0, width));
  for (const auto& [from, reads] :
       {std::pair(plan.target, &plan.tapped), {plan.own, &plan.drafted}}) {
    if (reads->rows() == 0)
      continue;
    const gpu::Tensor taken = own_.tapped.slice(0, reads->rows()).columns(0, width);
    operations.gather(taken, from.columns(0, width), reads->from);
    operations.scatter(fused.columns(width, width), taken, reads->to);
  }
  operations.linear(at_.residual, fused, *shard_.weights_.fusion);
}

/// Leaves what a head goes on from where the other model has no features yet.
void TransformerShard::Pass::leave_features(gpu::Operations& operations) const {
  const FusionConfig& fusion = *config().fusion;
  gpu::Tensor from = fusion.goes_on_normed ? at_.normed : at_.residual;
  if (config().reads_keys()) {
    from = own_.tapped.slice(0, rows()).columns(0, fusion.width);
    operations.linear(from, at_.normed, *shard_.weights_.fusion_out);
  }
  operations.scatter(space_.features.own, from, space_.features.left);
}

/// Computes logits of rows behind the final norm.
void TransformerShard::Pass::say(gpu::Operations& operations, gpu::Tensor logits,
                                 gpu::Tensor rows) const {
  const ModelConfig& c = config();
  if (c.fusion && c.fusion->clusters)
    return say_clusters(operations, logits, rows);
  operations.linear(logits, rows, *shard_.weights_.head);
  if (c.logit_soft_cap > 0)
    operations.soft_cap(logits, c.logit_soft_cap);
}

/// Does the same where a row says only the ids of the clusters that it is nearest to: a mixture
/// whose experts are clusters.
void TransformerShard::Pass::say_clusters(gpu::Operations& operations, gpu::Tensor logits,
                                          gpu::Tensor rows) const {
  const ClusterConfig& clusters = *config().fusion->clusters;
  const gpu::Tensor nearness = own_.nearness.slice(0, rows.rows);
  const auto chosen = gpu::Routing::in(reinterpret_cast<std::byte*>(own_.chosen.data), rows.rows,
                                       clusters.clusters, clusters.used);
  const gpu::Tensor said = own_.said.slice(0, chosen.picks());
  operations.linear(nearness, rows, *shard_.weights_.clusters);
  operations.route(chosen, nearness, nullptr, {});
  operations.expert_linear(said, rows, gpu::RoutedRows::by_row, *shard_.weights_.head, chosen);
  operations.spread(logits, said, chosen);
}

/// Returns those of `rows` whose logits are asked for.
gpu::Tensor TransformerShard::Pass::wanted_of(gpu::Operations& operations, gpu::Tensor rows) const {
  const int wanted = int(space_.wanted.size());
  if (wanted == rows.rows)
    return rows;
  const gpu::Tensor out = own_.last.slice(0, wanted);
  operations.gather(out, rows, space_.wanted);
  return out;
}

void TransformerShard::Pass::leave(gpu::Operations& operations) {
  const ModelConfig& c = config();
  if (!shard_.is_last()) {
    if (shard_.place_.number == 0) // the residual is the same on all shards
      operations.gather(space_.left.slice(0, rows()), at_.residual, space_.first_rows(rows()));
    return;
  }
  normalise(operations, at_.normed, at_.residual, shard_.weights_.final_norm);
  if (c.fusion)
    leave_features(operations);
  tap(operations, c.layers, at_.normed);
  const gpu::Tensor logits = own_.logits.slice(0, int(space_.wanted.size()));
  if (logits.rows == 0)
    return;
  say(operations, logits, wanted_of(operations, at_.normed));
}

} // namespace paceline::models
