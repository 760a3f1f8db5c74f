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

/// Leaves what rows give in `attended`, or behind its gates if the norm comes after these.
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
  const gpu::Tensor out = recurrence.sums() ? at_.qkv.columns(recurrence.outputs(), rule.values())
                                            : at_.attended.columns(0, rule.values());
  if (b.rates)
    operations.linear(rates, in, *b.rates);
  operations.recurrence(out, at_.qkv.columns(0, rule.channels()), rates, rule, space_.runs,
                        states(i));
}

void TransformerShard::Pass::convolve(gpu::Operations& operations, int i) {
  gpu::ShortConvolution convolution = config().short_convolution();
  convolution.kernel = floats(block(i).kernel);
  convolution.bias = floats(block(i).kernel_bias);
  operations.short_convolution(at_.attended.columns(0, convolution.channels),
                               at_.qkv.columns(0, convolution.row()), convolution, space_.runs,
                               states(i));
}

/// Returns what a recurrent layer has given: of a recurrence normalised by heads and gated, or
/// gated and normalised.
gpu::Tensor TransformerShard::Pass::given_values(gpu::Operations& operations, int i) {
  if (layer(i).mixer == Mixer::short_convolution)
    return at_.attended.columns(0, config().hidden);
  const RecurrenceConfig& recurrence = *config().recurrence;
  const gpu::Recurrence& rule = recurrence.rule;
  const float* const weight = floats(block(i).recurrence_norm);
  const gpu::Tensor values = at_.attended.columns(0, rule.values());
  if (recurrence.sums()) {
    operations.gate(values, at_.qkv.columns(recurrence.first_gate(), 2 * rule.values()), {});
    operations.rms_norm(values, values, weight, recurrence.norm_epsilon);
  } else {
    operations.gated_rms_norm(values, at_.qkv.columns(recurrence.first_gate(), rule.values()),
                              weight, rule.value_dim, recurrence.norm_epsilon);
  }
  return values;
}

} // namespace paceline::models
