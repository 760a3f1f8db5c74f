// The oracle: every operation as it is defined, rounding where the fast kernels round.
#include "base/bf16.hpp"
#include "gpu/cpu/int8_rows.hpp"
#include "gpu/cpu/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

namespace paceline::gpu::cpu {
namespace {

/// Returns a number of a head's block, without the scale of one of int8.
float element(KvType type, const std::byte* block, int at) {
  switch (type) {
  case KvType::f32: return reinterpret_cast<const float*>(block)[at];
  case KvType::bf16: return base::to_float(reinterpret_cast<const base::bf16*>(block)[at]);
  case KvType::int8: return float(reinterpret_cast<const std::int8_t*>(block)[at]);
  }
  return 0;
}

float key_element(const KvHead& kv, int position, int d) {
  const int page = position / kv.page_tokens;
  const int slot = position % kv.page_tokens;
  const int at = kv.type == KvType::bf16 ? (d / 2 * kv.page_tokens + slot) * 2 + d % 2
                                         : d * kv.page_tokens + slot;
  const float scale = kv.type == KvType::int8 ? kv.key_scales(page)[slot] : 1;
  return scale * element(kv.type, kv.keys(page), at);
}

float value_element(const KvHead& kv, int position, int d) {
  const int page = position / kv.page_tokens;
  const int slot = position % kv.page_tokens;
  const int at = kv.type == KvType::bf16 ? (slot / 2 * kv.head_dim + d) * 2 + slot % 2
                                         : slot * kv.head_dim + d;
  const float scale = kv.type == KvType::int8 ? kv.value_scales(page)[slot] : 1;
  return scale * element(kv.type, kv.values(page), at);
}

/// Returns activation(x), not of clamped_silu.
float activated(float x, Activation activation) {
  if (activation == Activation::relu)
    return x < 0 ? 0 : x;
  if (activation == Activation::relu_squared)
    return x < 0 ? 0 : x * x;
  if (activation == Activation::gelu)
    return x / 2 * std::erfc(-x / std::numbers::sqrt2_v<float>);
  // (1 + tanh(y)) / 2 is sigmoid(2 y).
  const float y = std::sqrt(2 / std::numbers::pi_v<float>) * (x + 0.044715f * x * x * x);
  return x / (1 + std::exp(activation == Activation::silu ? -x : -2 * y));
}

class ScalarKernels final : public Kernels {
public:
  const char* name() const override { return "scalar"; }

  double multiply_adds(int rounds) const override {
    constexpr int sums = 16;
    std::array<float, sums> sum{};
    volatile float factor = 1;
    for (int i = 0; i < rounds; ++i) {
      const float x = factor;
      for (float& s : sum)
        s += x * x;
    }
    volatile float keep = sum[0];
    static_cast<void>(keep);
    return double(rounds) * sums;
  }

  std::size_t staged_bytes(int rows, const PackedWeight& w) const override {
    return w.integers() ? int8_staged_bytes(rows, w)
                        : std::size_t(rows) * std::size_t(w.inputs()) * sizeof(float);
  }

  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
             int last) const override {
    if (w.integers())
      return stage_int8(staged, in, w, first, last);
    auto* to = reinterpret_cast<float*>(staged);
    for (int r = first; r < last; ++r)
      for (int i = 0; i < w.inputs(); ++i)
        to[std::size_t(r) * std::size_t(w.inputs()) + std::size_t(i)] =
            w.rounds_rows() ? base::round_to_bf16(in.row(r)[i]) : in.row(r)[i];
  }

  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
              Scratch& /*scratch*/) const override {
    if (w.integers())
      return linear_int8(out, staged, w, run, add);
    const auto* rows = reinterpret_cast<const float*>(staged);
    std::vector<float> weights(std::size_t(w.inputs()));
    for (int o = run.first * tile_outputs; o < std::min(run.last * tile_outputs, w.outputs());
         ++o) {
      w.read_output(o, weights.data());
      for (int r = 0; r < out.rows; ++r) {
        const float* row = rows + std::size_t(r) * weights.size();
        float sum = 0;
        for (std::size_t i = 0; i < weights.size(); ++i)
          sum += row[i] * weights[i];
        out.row(r)[o] = sum + (add ? out.row(r)[o] : 0);
      }
    }
  }

  void rms_norm(float* out, const float* in, const float* weight, int cols,
                float epsilon) const override {
    float squares = 0;
    for (int i = 0; i < cols; ++i)
      squares += in[i] * in[i];
    const float factor = 1 / std::sqrt(squares / float(cols) + epsilon);
    for (int i = 0; i < cols; ++i)
      out[i] = in[i] * factor * weight[i];
  }

  void layer_norm(float* out, const float* in, const float* weight, const float* bias, int cols,
                  float epsilon) const override {
    float total = 0;
    for (int i = 0; i < cols; ++i)
      total += in[i];
    const float mean = total / float(cols);
    float squares = 0;
    for (int i = 0; i < cols; ++i)
      squares += (in[i] - mean) * (in[i] - mean);
    const float factor = 1 / std::sqrt(squares / float(cols) + epsilon);
    for (int i = 0; i < cols; ++i)
      out[i] = (in[i] - mean) * factor * weight[i] + bias[i];
  }

  void rotate(float* head, const float* cos, const float* sin, int half) const override {
    for (int i = 0; i < half; ++i) {
      const float a = head[i];
      const float b = head[i + half];
      head[i] = a * cos[i] - b * sin[i];
      head[i + half] = b * cos[i] + a * sin[i];
    }
  }

  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    for (int r = 0; r < out.rows; ++r)
      for (int head = 0; head < out.cols / kv.head_dim; ++head)
        attend_one(out.row(r) + head * kv.head_dim, q.row(r) + head * kv.head_dim,
                   options.from_head(head), positions[std::size_t(r)], kv, scratch);
  }

  void gate(float* out, const float* gate, const float* up, int n,
            const Gating& gating) const override {
    const Activation activation = gating.activation;
    if (activation == Activation::clamped_silu)
      return gate_clamped(out, gate, up, n, gating);
    for (int i = 0; i < n; ++i)
      out[i] = activated(gate[i], activation) * up[i];
  }

  void activate(float* out, const float* in, int n, Activation activation) const override {
    for (int i = 0; i < n; ++i)
      out[i] = activated(in[i], activation);
  }

  void soft_cap(float* x, int n, float cap) const override {
    for (int i = 0; i < n; ++i)
      x[i] = cap * std::tanh(x[i] / cap);
  }

  void advance_delta(float* state, const float* key, int key_dim, float* value, int value_dim,
                     float decay, float rate) const override {
    for (int i = 0; i < key_dim; ++i)
      for (int j = 0; j < value_dim; ++j)
        state[i * value_dim + j] *= decay;
    for (int j = 0; j < value_dim; ++j) {
      float known = 0;
      for (int i = 0; i < key_dim; ++i)
        known += state[i * value_dim + j] * key[i];
      value[j] = (value[j] - known) * rate;
    }
    for (int i = 0; i < key_dim; ++i)
      for (int j = 0; j < value_dim; ++j)
        state[i * value_dim + j] += key[i] * value[j];
  }

  void advance_sum(float* state, const float* key, int key_dim, const float* change, int value_dim,
                   float decay) const override {
    for (int i = 0; i < key_dim; ++i)
      for (int j = 0; j < value_dim; ++j)
        state[i * value_dim + j] = state[i * value_dim + j] * decay + key[i] * change[j];
  }

  void read_state(float* out, int value_dim, const float* state, const float* query,
                  int key_dim) const override {
    std::fill_n(out, value_dim, 0.0f);
    for (int i = 0; i < key_dim; ++i)
      for (int j = 0; j < value_dim; ++j)
        out[j] += state[i * value_dim + j] * query[i];
  }

private:
  static void gate_clamped(float* out, const float* gate, const float* up, int n,
                           const Gating& gating) {
    for (int i = 0; i < n; ++i) {
      const float x = std::min(gate[i], gating.limit);
      const float value = std::clamp(up[i], -gating.limit, gating.limit);
      out[i] = x / (1 + std::exp(-gating.alpha * x)) * (value + 1);
    }
  }

  /// options: those of the query's head.
  static void attend_one(float* out, const float* q, const AttentionOptions& options, int position,
                         const KvHead& kv, Scratch& scratch) {
    const int first = options.first_seen(position);
    const auto seen = std::size_t(position + 1 - first);
    const std::span scores(reinterpret_cast<float*>(scratch.at_least(seen * sizeof(float))), seen);
    std::fill(scores.begin(), scores.end(), 0.0f);
    float highest = options.sinks ? *options.sinks : -std::numeric_limits<float>::infinity();
    for (int j = first; j <= position; ++j) {
      float& score = scores[std::size_t(j - first)];
      for (int d = 0; d < kv.head_dim; ++d)
        score += q[d] * options.scale * key_element(kv, j, d);
      if (options.soft_cap > 0)
        score = options.soft_cap * std::tanh(score / options.soft_cap);
      highest = std::max(highest, score);
    }
    float total = options.sinks ? std::exp(*options.sinks - highest) : 0;
    for (float& score : scores)
      total += score = std::exp(score - highest);
    std::fill_n(out, kv.head_dim, 0.0f);
    for (int j = first; j <= position; ++j)
      for (int d = 0; d < kv.head_dim; ++d)
        out[d] += scores[std::size_t(j - first)] * value_element(kv, j, d);
    for (int d = 0; d < kv.head_dim; ++d)
      out[d] /= total;
  }
};

} // namespace

const Kernels& scalar_kernels() {
  static const ScalarKernels kernels;
  return kernels;
}

} // namespace paceline::gpu::cpu
