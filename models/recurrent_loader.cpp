#include "models/recurrent_loader.hpp"

#include <numeric>

namespace paceline::models {
namespace {

/// Returns a matrix whose rows are those of one head after the other, each in parts of such sizes,
/// with the first parts of all heads first.
LayerPart by_part(TensorKey key, int heads, std::initializer_list<int> sizes) {
  const int head_rows = std::accumulate(sizes.begin(), sizes.end(), 0);
  LayerPart out{key, heads * head_rows, false, {}};
  int before = 0;
  for (const int size : sizes) {
    for (int head = 0; head < heads; ++head)
      out.own.push_back({head * head_rows + before, size});
    before += size;
  }
  return out;
}

/// Returns where a recurrence's queries, keys and values lie in the file: with `sum` the values
/// come first, and the queries last.
std::vector<Range> stored_channels(const RecurrenceConfig& recurrence) {
  const gpu::Recurrence& rule = recurrence.rule;
  if (!recurrence.sums())
    return {{0, rule.channels()}};
  const int keys = rule.keys();
  const int values = rule.values();
  return {{values + keys, keys}, {values, keys}, {0, values}};
}

} // namespace

void RecurrentLoader::set_constants(TransformerBlock& b, int i) const {
  if (convolves(i))
    return set_kernel(b, i, config_.convolution->taps, {{0, config_.hidden}},
                      config_.convolution->bias);
  const RecurrenceConfig& recurrence = *config_.recurrence;
  const gpu::Recurrence& rule = recurrence.rule;
  set_kernel(b, i, rule.taps, stored_channels(recurrence), recurrence.kernel_bias);
  b.speeds = vector({TensorRole::speed, i}, rule.value_heads);
  b.offsets = vector({TensorRole::offset, i}, rule.value_heads);
  if (recurrence.sums())
    b.skips = vector({TensorRole::skip, i}, rule.value_heads);
  else
    set_rates(b, i);
  b.recurrence_norm = packer_.norm({TensorRole::recurrence_norm, i},
                                   recurrence.sums() ? rule.values() : rule.value_dim, 0);
}

/// Loads a convolution's weights by their taps. channels: where in the file those lie that come one
/// after the other here.
void RecurrentLoader::set_kernel(TransformerBlock& b, int i, int taps,
                                 const std::vector<Range>& channels, bool bias) const {
  int all = 0;
  for (const Range& range : channels)
    all += range.count;
  const auto kernel = packer_.keep(tensors_.kernel({TensorRole::kernel, i}, all, taps));
  const auto biases = bias ? packer_.keep(tensors_.bias({TensorRole::kernel, i}, all))
                           : std::optional(std::vector<float>());
  if (!kernel || !biases)
    return;
  std::vector<float> by_tap;
  std::vector<float> in_order;
  for (int tap = 0; tap < taps; ++tap)
    for (const Range& range : channels)
      for (int channel = range.first; channel < range.first + range.count; ++channel) {
        by_tap.push_back((*kernel)[std::size_t(channel * taps + tap)]);
        if (bias && tap == 0)
          in_order.push_back((*biases)[std::size_t(channel)]);
      }
  b.kernel = packer_.upload(by_tap);
  if (bias)
    b.kernel_bias = packer_.upload(in_order);
}

/// Loads what makes the rates of a gated delta rule. They are few and sensitive, so this stays
/// plain numbers.
void RecurrentLoader::set_rates(TransformerBlock& b, int i) const {
  const gpu::Recurrence& rule = config_.recurrence->rule;
  const int each = rule.value_heads / rule.key_heads;
  if (tensors_.has(TensorRole::delta_rates))
    b.rates = packer_.pack({by_part({TensorRole::delta_rates, i}, rule.key_heads, {each, each})},
                           config_.hidden);
  else
    b.rates = packer_.pack({{{TensorRole::delta_strength, i}, rule.value_heads},
                            {{TensorRole::delta_rate, i}, rule.value_heads}},
                           config_.hidden);
}

void RecurrentLoader::set_products(TransformerBlock& b, int i) const {
  const int hidden = config_.hidden;
  if (convolves(i)) {
    const bool bias = config_.convolution->bias;
    b.qkv = product({{{TensorRole::mixer_in, i}, 3 * hidden, bias}}, hidden);
    b.attention_out = product({{{TensorRole::mixer_out, i}, hidden, bias}}, hidden);
    return;
  }
  const RecurrenceConfig& recurrence = *config_.recurrence;
  if (recurrence.sums()) { // Gates come first in the file, then channels and rates.
    const int values = recurrence.rule.values();
    LayerPart in{{TensorRole::mixer_in, i}, recurrence.outputs(), recurrence.projection_bias, {}};
    for (const Range& range : stored_channels(recurrence))
      in.own.push_back({values + range.first, range.count});
    in.own.push_back({values + recurrence.rule.channels(), recurrence.rule.rates()});
    in.own.push_back({0, values});
    b.qkv = product({in}, hidden);
  } else {
    b.qkv = delta_in(i);
  }
  b.attention_out = product({{{TensorRole::mixer_out, i}, hidden, recurrence.projection_bias}},
                            recurrence.rule.values());
}

std::shared_ptr<const gpu::Weight> RecurrentLoader::delta_in(int i) const {
  const gpu::Recurrence& rule = config_.recurrence->rule;
  const int values = rule.values() / rule.key_heads;
  if (tensors_.has(TensorRole::delta_joined))
    return product({by_part({TensorRole::delta_joined, i}, rule.key_heads,
                            {rule.key_dim, rule.key_dim, values, values})},
                   config_.hidden);
  return product(
      {{{TensorRole::delta_in, i}, rule.channels()}, {{TensorRole::delta_gate, i}, rule.values()}},
      config_.hidden);
}

std::shared_ptr<gpu::Buffer> RecurrentLoader::vector(TensorKey key, int size) const {
  const auto values = packer_.keep(tensors_.vector(key, size));
  return values ? packer_.upload(*values) : nullptr;
}

} // namespace paceline::models
