// What a transformer's pass does in recurrent layers.
#include "models/row_products.hpp"
#include "models/transformer_shard.hpp"

namespace paceline::models {

/// Advances the states of layer `i` by all rows.
void TransformerShard::Pass::advance(gpu::Operations& operations, int i) {
  const TransformerBlock& b = block(i);
  const gpu::Tensor in = input(operations, b.attention_norm);
  multiply(operations, at_.qkv.columns(0, b.qkv->outputs()), in, *b.qkv, at_.fast);
  if (layer(i).mixer == Mixer::short_convolution)
    convolve(operations, i);
  else
    advance_matrices(operations, i, in);
}

void TransformerShard::Pass::advance_matrices(gpu::Operations& operations, int i, gpu::Tensor in) {
  const TransformerBlock& b = block(i);
  const RecurrenceConfig& recurrence = *config().recurrence;
  gpu::Recurrence rule = recurrence.rule;
  rule.kernel = floats(b.kernel);
  rule.bias = floats(b.kernel_bias);
  rule.speeds = floats(b.speeds);
  rule.offsets = floats(b.offsets);
  rule.skips = floats(b.skips);
  const gpu::Tensor rates =
      b.rates ? own_.rates.slice(0, rows()) : at_.qkv.columns(rule.channels(), rule.rates());
  if (b.rates)
    operations.linear(rates, in, *b.rates);
  operations.recurrence(at_.attended.columns(0, rule.values()), at_.qkv.columns(0, rule.channels()),
                        rates, rule, space_.runs, states(i));
}

void TransformerShard::Pass::convolve(gpu::Operations& operations, int i) {
  gpu::ShortConvolution convolution = config().short_convolution();
  convolution.kernel = floats(block(i).kernel);
  convolution.bias = floats(block(i).kernel_bias);
  operations.short_convolution(at_.attended.columns(0, convolution.channels),
                               at_.qkv.columns(0, convolution.row()), convolution, space_.runs,
                               states(i));
}

/// Returns what a recurrent layer has given, of a recurrence normalised and gated.
gpu::Tensor TransformerShard::Pass::given_values(gpu::Operations& operations, int i) {
  if (layer(i).mixer == Mixer::short_convolution)
    return at_.attended.columns(0, config().hidden);
  const RecurrenceConfig& recurrence = *config().recurrence;
  const gpu::Tensor values = at_.attended.columns(0, recurrence.rule.values());
  operations.gated_rms_norm(values, at_.qkv.columns(recurrence.first_gate(), values.cols),
                            {floats(block(i).recurrence_norm), recurrence.norm_width,
                             recurrence.norm_epsilon, recurrence.sums()});
  return values;
}

} // namespace paceline::models
