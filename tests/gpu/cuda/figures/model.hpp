// A model of random numbers, whose passes and kernels are measured.
#pragma once

#include "gpu/cuda/kernels.hpp"
#include "tests/gpu/cuda/figures/bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

namespace paceline::gpu::cuda::figures {

/// The place of some rows at the end of a context, in device memory.
class Places {
public:
  Places(const Bench& bench, const Shape& s, int rows, int context)
      : sequence_(std::size_t(rows), 0), position_(std::size_t(rows), 0),
        pages_(std::size_t(context + page_tokens - 1) / page_tokens, 0u) {
    std::iota(position_.begin(), position_.end(), context - rows);
    std::iota(pages_.begin(), pages_.end(), 0u);
    const auto tiles = kernels::tile_rows_of(sequence_, s.heads, s.kv_heads);
    const std::vector<std::int32_t> first_page{0};
    held_ = {bench.upload(sequence_), bench.upload(position_), bench.upload(first_page),
             bench.upload(pages_), bench.upload(tiles)};
    rows_.count = rows;
    rows_.sequence = reinterpret_cast<const std::int32_t*>(held_[0]->data());
    rows_.position = reinterpret_cast<const std::int32_t*>(held_[1]->data());
    rows_.first_page = reinterpret_cast<const std::int32_t*>(held_[2]->data());
    rows_.pages = reinterpret_cast<const std::uint32_t*>(held_[3]->data());
    rows_.tiles = reinterpret_cast<const kernels::RowTile*>(held_[4]->data());
    rows_.tile_count = int(tiles.size());
    rows_.context = context;
  }
  const kernels::Rows& rows() const { return rows_; }
  int pages() const { return int(pages_.size()); }

private:
  std::vector<std::int32_t> sequence_;
  std::vector<std::int32_t> position_;
  std::vector<std::uint32_t> pages_;
  std::vector<std::shared_ptr<Buffer>> held_;
  kernels::Rows rows_;
};

/// A model's weights and cache: random numbers.
class Model {
public:
  /// format: that of the weights; none: it has no weights.
  Model(const Bench& bench, const Shape& s, int rows_most, int context_most,
        std::optional<WeightFormat> format = WeightFormat::bf16)
      : bench_(bench),
        shape_(s), layout_{s.layers, s.kv_heads, s.head_dim, page_tokens, KvType::bf16},
        page_bytes_(layout_.token_bytes() * page_tokens),
        cache_(bench.noise(page_bytes_ * std::size_t((context_most + page_tokens) / page_tokens))),
        cos_(bench.rows(context_most, s.head_dim / 2)),
        sin_(bench.rows(context_most, s.head_dim / 2)), hidden_(bench.rows(rows_most, s.hidden)),
        normed_(bench.rows(rows_most, s.hidden)), qkv_(bench.rows(rows_most, s.qkv())),
        heads_(bench.rows(rows_most, s.heads * s.head_dim)), up_(bench.rows(rows_most, 2 * s.ffn)),
        gated_(bench.rows(rows_most, s.ffn)), logits_(bench.rows(rows_most, s.vocabulary)),
        norm_(bench.rows(1, s.hidden)),
        staged_(bench.allocate(
            kernels::staged_bytes(rows_most, std::max({s.ffn, s.hidden, s.heads * s.head_dim})))),
        staged_by_product_(bench.allocate(kernels::staged_bytes(rows_most, s.ffn))) {
    if (!format)
      return;
    format_ = *format;
    for (int layer = 0; layer < s.layers; ++layer)
      layers_.push_back({weight(s.qkv(), s.hidden), weight(s.hidden, s.heads * s.head_dim),
                         weight(2 * s.ffn, s.hidden), weight(s.hidden, s.ffn)});
    head_ = weight(s.vocabulary, s.hidden);
  }

  double weight_bytes() const { return double(weight_bytes_); }
  double cache_bytes(int context) const { return double(layout_.token_bytes()) * double(context); }

  void attend(const Queue& queue, const kernels::Rows& rows, int layer) {
    const auto pages = cache(layer);
    const std::size_t wanted = kernels::attention_workspace(rows.count, rows.tile_count,
                                                            shape_.heads, pages, rows.context);
    if (!workspace_ || workspace_->size() < wanted)
      workspace_ = bench_.allocate(wanted);
    const AttentionOptions options{1 / std::sqrt(float(shape_.head_dim)), 0, 0};
    PACELINE_CUDA_CHECK(
        kernels::attention(queue, heads_->tensor(rows.count, shape_.heads * shape_.head_dim),
                           qkv_->tensor(rows.count, shape_.qkv()), shape_.heads, options, rows,
                           pages, workspace_->data(), staged()));
  }

  /// One of the kernels between products.
  void small(const Queue& queue, const kernels::Rows& rows, std::string_view name) {
    const int n = rows.count;
    const auto* norm = reinterpret_cast<const float*>(norm_->data());
    if (name == "norm")
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed_->tensor(n, shape_.hidden),
                                            hidden_->tensor(n, shape_.hidden), norm, 1e-5f,
                                            staged()));
    else if (name == "gate")
      PACELINE_CUDA_CHECK(kernels::gate(queue, gated_->tensor(n, shape_.ffn),
                                        up_->tensor(n, 2 * shape_.ffn), Gating{Activation::silu},
                                        staged()));
    else
      PACELINE_CUDA_CHECK(kernels::rope_store(queue, qkv_->tensor(n, shape_.qkv()), shape_.heads,
                                              rope(), {}, rows, cache(0)));
  }

  /// The calls of a decode step, as CudaOperations makes them.
  void forward(const Queue& queue, const kernels::Rows& rows) {
    const int n = rows.count;
    const Shape& s = shape_;
    const Tensor hidden = hidden_->tensor(n, s.hidden);
    const Tensor normed = normed_->tensor(n, s.hidden);
    const Tensor qkv = qkv_->tensor(n, s.qkv());
    const Tensor heads = heads_->tensor(n, s.heads * s.head_dim);
    const Tensor up = up_->tensor(n, 2 * s.ffn);
    const Tensor gated = gated_->tensor(n, s.ffn);
    const auto* norm = reinterpret_cast<const float*>(norm_->data());
    for (int layer = 0; layer < s.layers; ++layer) {
      const Layer& w = layers_[std::size_t(layer)];
      const auto pages = cache(layer);
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
      PACELINE_CUDA_CHECK(kernels::linear(queue, qkv, normed, staged(), w.qkv, false));
      PACELINE_CUDA_CHECK(kernels::rope_store(queue, qkv, s.heads, rope(), {}, rows, pages));
      attend(queue, rows, layer);
      PACELINE_CUDA_CHECK(kernels::linear(queue, hidden, heads, staged(), w.o, true));
      PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
      constexpr Gating gating{Activation::silu};
      if (kernels::joins_gate(w.up.layout, n)) {
        const kernels::StagedRows rest = rows_in(*staged_by_product_);
        PACELINE_CUDA_CHECK(
            kernels::linear_gate(queue, gated, normed, staged(), w.up, gating, rest));
        PACELINE_CUDA_CHECK(kernels::linear(queue, hidden, gated, rest, w.down, true));
      } else {
        PACELINE_CUDA_CHECK(kernels::linear(queue, up, normed, staged(), w.up, false));
        PACELINE_CUDA_CHECK(kernels::gate(queue, gated, up, gating, staged()));
        PACELINE_CUDA_CHECK(kernels::linear(queue, hidden, gated, staged(), w.down, true));
      }
    }
    PACELINE_CUDA_CHECK(kernels::rms_norm(queue, normed, hidden, norm, 1e-5f, staged()));
    PACELINE_CUDA_CHECK(
        kernels::linear(queue, logits_->tensor(n, s.vocabulary), normed, staged(), head_, false));
  }

private:
  struct Layer {
    kernels::PackedWeight qkv, o, up, down;
  };

  kernels::PackedWeight weight(int outputs, int inputs) {
    const auto layout = kernels::PackedLayout::of(format_, outputs, inputs);
    weights_.push_back(bench_.weight(format_, layout.bytes()));
    weight_bytes_ += layout.bytes();
    return {layout, weights_.back()->data(), nullptr};
  }
  kernels::Cache cache(int layer) const {
    return kernels::Cache::of(cache_->data(), page_bytes_, layout_, layer);
  }
  RopeTable rope() const {
    const int half = shape_.head_dim / 2;
    const int positions = int(cos_->size() / sizeof(float)) / half;
    return {cos_->tensor(positions, half), sin_->tensor(positions, half)};
  }
  static kernels::StagedRows rows_in(Buffer& memory) {
    return {reinterpret_cast<std::uint16_t*>(memory.data())};
  }
  kernels::StagedRows staged() const { return rows_in(*staged_); }

  const Bench& bench_;
  const Shape shape_;
  const KvLayout layout_;
  const std::size_t page_bytes_;
  const std::shared_ptr<Buffer> cache_, cos_, sin_, hidden_, normed_, qkv_, heads_, up_, gated_,
      logits_, norm_, staged_, staged_by_product_;
  std::shared_ptr<Buffer> workspace_;
  WeightFormat format_ = WeightFormat::bf16;
  std::vector<std::shared_ptr<Buffer>> weights_;
  std::size_t weight_bytes_ = 0;
  std::vector<Layer> layers_;
  kernels::PackedWeight head_;
};

} // namespace paceline::gpu::cuda::figures
