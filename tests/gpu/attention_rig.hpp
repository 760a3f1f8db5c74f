// Attention over a paged cache, as tests feed it.
#pragma once

#include "tests/gpu/rig.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace paceline::gpu::testing {

struct AttentionHeads {
  int query;
  int kv;
  int dim;
  int columns() const { return (query + 2 * kv) * dim; }
};

struct AttentionSetting {
  std::string kernel = "scalar";
  int threads = 1;
  int page_tokens = 16;
  KvType cached = KvType::bf16;
  int chunk = 1000;   ///< Rows of a sequence fed at a time.
  bool batch = false; ///< Both sequences in one batch, else one after the other.
  int window = 0;
  float soft_cap = 0;
  int rotated = -1; ///< Dimensions; -1: all.
  bool norms = false;
  bool sinks = false;
  bool shared = false; ///< Queries, keys and values come alone, the latter first.
  bool copied = false; ///< Attention reads the pages of other sequences, which have copies.
  bool blocks = false; ///< Each row sees all rows of its sequence that are fed with it.

  AttentionOptions options(int dim) const { return {1 / std::sqrt(float(dim)), soft_cap, window}; }
  int pairs(int dim) const { return (rotated < 0 ? dim : rotated) / 2; }
};

/// Two sequences' queries, keys and values.
struct AttentionInput {
  /// Returns as many positions as the longest sequence has, and a few more.
  int positions() const { return std::max(300, *std::max_element(lengths.begin(), lengths.end())); }
  AttentionInput(AttentionHeads h, std::vector<int> sequences, std::uint64_t seed)
      : heads(h), lengths(std::move(sequences)), random(seed), cos(positions(), h.dim / 2),
        sin(positions(), h.dim / 2) {
    for (int length : lengths)
      qkv.emplace_back(length, h.columns(), random, 2.0f);
    query_norm = random.floats(std::size_t(h.dim), 2);
    key_norm = random.floats(std::size_t(h.dim), 2);
    value_norm = random.floats(std::size_t(h.dim), 2);
    sinks = random.floats(std::size_t(h.query), 4);
    for (int p = 0; p < cos.rows; ++p)
      for (int i = 0; i < cos.cols; ++i) {
        const double angle = p * std::pow(10000.0, -double(i) / cos.cols);
        cos.tensor().row(p)[i] = float(std::cos(angle));
        sin.tensor().row(p)[i] = float(std::sin(angle));
      }
  }
  AttentionHeads heads;
  std::vector<int> lengths;
  Random random;
  std::vector<Matrix> qkv;
  std::vector<float> query_norm;
  std::vector<float> key_norm;
  std::vector<float> value_norm;
  std::vector<float> sinks; ///< A score of each head.
  Matrix cos;
  Matrix sin;
};

inline constexpr float attention_norm_epsilon = 0.01f;

/// Returns what attention makes of the input, a result for each sequence.
std::vector<Matrix> attend(AttentionInput& input, const AttentionSetting& setting);

} // namespace paceline::gpu::testing
