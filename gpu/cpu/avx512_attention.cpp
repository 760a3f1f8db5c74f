// Attention over a cache of bf16 by vdpbf16ps: a running softmax over blocks of keys
// (FlashAttention, Dao et al. 2022). The cache stores both operands already: a lane is a key with
// two of its dimensions in scores, and a dimension of two keys in sums. Queries and weights are
// rounded to bf16, as on tiles (amx_attention.cpp).
//
// Queries of several rows pass a block of keys together. Each is summed alone, over the pairs of
// what it sees in their order, so its bits are the same in any company.
#include "gpu/cpu/avx512_attention.hpp"

#include "gpu/cpu/avx512_tiles.hpp"
#include "gpu/cpu/highway.hpp"

#if defined(__x86_64__)

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TARGET)

#define UNROLL _Pragma("GCC unroll 16")

namespace paceline::gpu::cpu {
namespace {

/// Queries whose sums are in registers together, with a block's keys or 64 dimensions.
constexpr int queries_together = 6;
/// Queries that pass a block while it is in the first-level cache, unless one row has more.
constexpr int panel_queries = 48;
constexpr int key_tiles = key_block / tile_outputs; ///< Tiles of 16 keys in a block.
constexpr int key_pairs = key_block / 2;

constexpr float log2_e = 1.44269504f;
/// ln(2)^n / n!, from n = 5 down: the series of 2^x, for |x| <= 1/2.
constexpr float exp2_terms[] = {1.33335581e-3f, 9.61812911e-3f, 5.55041087e-2f,
                                0.240226507f,   0.693147181f,   1};

/// Calls `call` with a count from 1 to queries_together as a constant.
template <int Count = queries_together, class F>
void with_count(int count, const F& call) {
  if constexpr (Count > 1)
    if (count < Count)
      return with_count<Count - 1>(count, call);
  call(std::integral_constant<int, Count>());
}

inline __m512bh load_pairs(const std::byte* from) {
  return __m512bh(_mm512_loadu_si512(from));
}

/// What a row sees of a block of keys: [begin, end), counted from the block's first.
struct Sight {
  int begin;
  int end;
  bool none() const { return begin >= end; }
  bool all() const { return begin == 0 && end == key_block; }
};

/// Rows whose queries pass the keys together.
class Panel {
public:
  Panel(Tensor out, Tensor q, std::span<const std::int32_t> positions,
        const AttentionOptions& options, const KvHead& kv, Scratch& scratch)
      : out_(out), q_(q), positions_(positions), options_(options), kv_(kv),
        heads_(out.cols / kv.head_dim), queries_(out.rows * heads_), pairs_(kv.head_dim / 2),
        keys_in_place_(kv.page_tokens % tile_outputs == 0) {
    const auto count = std::size_t(queries_);
    const std::size_t query_bytes = count * std::size_t(pairs_) * pair_bytes;
    const std::size_t key_bytes = keys_in_place_ ? 0 : std::size_t(pairs_) * key_block * pair_bytes;
    const std::size_t sum_bytes = count * std::size_t(kv.head_dim) * sizeof(float);
    std::byte* next =
        scratch.at_least(query_bytes + key_bytes + sum_bytes + count * sizeof(Softmax));
    const auto take = [&](std::size_t bytes) { return std::exchange(next, next + bytes); };
    gathered_ = take(key_bytes);
    sums_ = reinterpret_cast<float*>(take(sum_bytes));
    staged_ = take(query_bytes);
    softmax_ = reinterpret_cast<Softmax*>(take(count * sizeof(Softmax)));
  }

  void attend() {
    begin();
    const int first = options_.first_seen(positions_.front());
    const int last = positions_.back() + 1;
    for (int block = first / key_block * key_block; block < last; block += key_block) {
      find_keys(block, first, last);
      find_values(block, first, last);
      for (int query = 0; query < queries_; query += queries_together)
        with_count(std::min(queries_together, queries_ - query),
                   [&](auto count) { pass<count>(query, block); });
    }
    finish();
  }

private:
  void begin() {
    for (int i = 0; i < queries_; ++i) {
      const float* from = q_.row(i / heads_) + i % heads_ * kv_.head_dim;
      std::byte* to = staged_of(i);
      for (int d = 0; d < kv_.head_dim; d += 32, to += line)
        _mm512_mask_storeu_epi32(to, first_lanes((kv_.head_dim - d) / 2),
                                 pairs_of_row(from + d, kv_.head_dim - d));
      softmax_[i] = Softmax::begin(options_.from_head(i % heads_).sinks);
    }
    std::fill_n(sums_, queries_ * kv_.head_dim, 0.0f);
  }

  std::byte* staged_of(int query) const {
    return staged_ + std::size_t(query * pairs_) * pair_bytes;
  }
  float* sums_of(int query) const { return sums_ + query * kv_.head_dim; }

  /// Finds the tiles of a block's keys. One that no row sees is read from another that some row
  /// sees; its scores are not used.
  void find_keys(int block, int first, int last) {
    if (!keys_in_place_)
      gather_keys(std::max(block, first), std::min(block + key_block, last), block);
    for (int tile = 0; tile < key_tiles; ++tile) {
      const int key = std::clamp(block + tile * tile_outputs, first / tile_outputs * tile_outputs,
                                 (last - 1) / tile_outputs * tile_outputs);
      keys_[tile] = keys_in_place_
                        ? kv_.keys(key / kv_.page_tokens) + key % kv_.page_tokens * int(pair_bytes)
                        : gathered_ + std::size_t(tile) * line;
    }
    key_stride_ = std::size_t(keys_in_place_ ? kv_.page_tokens : key_block) * pair_bytes;
  }

  void gather_keys(int key, int last, int block) {
    for (int next = 0; key < last; key = next) {
      const int page = key / kv_.page_tokens;
      next = std::min((page + 1) * kv_.page_tokens, last);
      const std::byte* from = kv_.keys(page) + key % kv_.page_tokens * int(pair_bytes);
      for (int pair = 0; pair < pairs_; ++pair)
        std::memcpy(gathered_ + std::size_t(pair * key_block + key - block) * pair_bytes,
                    from + std::size_t(pair * kv_.page_tokens) * pair_bytes,
                    std::size_t(next - key) * pair_bytes);
    }
  }

  /// Finds the values of each pair of keys of which any row sees one.
  void find_values(int block, int first, int last) {
    const int behind = std::min(block + key_block, last);
    for (int key = std::max(block, first) / 2 * 2; key < behind; key += 2)
      values_[(key - block) / 2] =
          kv_.values(key / kv_.page_tokens) +
          std::size_t(key % kv_.page_tokens / 2 * kv_.head_dim) * pair_bytes;
  }

  Sight sight_of(int query, int block) const {
    const int position = positions_[std::size_t(query / heads_)];
    return {std::max(options_.first_seen(position) - block, 0),
            std::min(position + 1 - block, key_block)};
  }

  /// Takes `Count` queries past a block. Those of a row see the same keys of it.
  template <int Count>
  void pass(int query, int block) {
    score<Count>(query);
    for (int i = 0; i < Count; ++i)
      weigh(query + i, i, sight_of(query + i, block));
    if (sight_of(query, block).all() && sight_of(query + Count - 1, block).all())
      return sum_values<Count>(query, 0, {0, key_block});
    for (int i = 0, next = 0; i < Count; i = next) {
      next = std::min(Count, ((query + i) / heads_ + 1) * heads_ - query);
      const Sight sight = sight_of(query + i, block);
      if (!sight.none())
        with_count<Count>(next - i, [&](auto own) { sum_values<own>(query + i, i, sight); });
    }
  }

  template <int Count>
  void score(int query) {
    __m512 sum[Count][key_tiles];
    UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int t = 0; t < key_tiles; ++t) sum[i][t] =
        _mm512_setzero_ps();
    const std::byte* q = staged_of(query);
    const std::size_t query_stride = std::size_t(pairs_) * pair_bytes;
    for (std::size_t pair = 0, at = 0; pair < std::size_t(pairs_);
         ++pair, at += key_stride_, q += pair_bytes) {
      __m512bh keys[key_tiles];
      UNROLL for (int t = 0; t < key_tiles; ++t) keys[t] = load_pairs(keys_[t] + at);
      UNROLL for (int i = 0; i < Count; ++i) {
        const __m512bh x = broadcast(q + std::size_t(i) * query_stride);
        UNROLL for (int t = 0; t < key_tiles; ++t) sum[i][t] =
            _mm512_dpbf16_ps(sum[i][t], keys[t], x);
      }
    }
    UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int t = 0; t < key_tiles; ++t)
        _mm512_store_ps(scores_[i] + t * tile_outputs, sum[i][t]);
  }

  /// Turns the scores of a query into weights, and scales its sums so far to fit them.
  void weigh(int query, int at, const Sight& sight) {
    if (sight.none())
      return;
    const float factor = options_.soft_cap > 0 ? weigh_capped(softmax_[query], at, sight)
                                               : weigh_scores(softmax_[query], at, sight);
    if (factor == 1)
      return;
    float* const sums = sums_of(query);
    for (int d = 0; d < kv_.head_dim; d += tile_outputs)
      _mm512_storeu_ps(sums + d, _mm512_mul_ps(_mm512_loadu_ps(sums + d), _mm512_set1_ps(factor)));
  }

  float weigh_capped(Softmax& softmax, int at, const Sight& sight) {
    float* const scores = scores_[at];
    const float factor = weigh_block_(softmax, scores, sight.begin, sight.end, options_);
    for (int j = 0; j < key_block; j += 32)
      _mm512_store_si512(weights_[at] + std::size_t(j / 2) * pair_bytes,
                         pairs_of_row(scores + j, 32));
    return factor;
  }

  /// Does what WeighBlock does where scores have no cap: exp(x) is 2^(x log2(e)).
  float weigh_scores(Softmax& softmax, int at, const Sight& sight) {
    const __m512 never = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    __m512 x[key_tiles];
    UNROLL for (int t = 0; t < key_tiles; ++t) {
      const int first = t * tile_outputs;
      const auto seen =
          __mmask16(first_lanes(sight.end - first) & ~first_lanes(sight.begin - first));
      x[t] = _mm512_mask_loadu_ps(never, seen, scores_[at] + first);
    }
    const __m512 tops =
        _mm512_mul_ps(_mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3])),
                      _mm512_set1_ps(options_.scale));
    float now = softmax.highest; // Mostly a block brings no higher score.
    if (_mm512_cmp_ps_mask(tops, _mm512_set1_ps(now), _CMP_NLE_UQ) != 0)
      now = std::max(now, _mm512_reduce_max_ps(tops));
    const __m512 scale = _mm512_set1_ps(options_.scale * log2_e);
    const __m512 shift = _mm512_set1_ps(-now * log2_e);
    UNROLL for (int t = 0; t < key_tiles; ++t) x[t] = exp2(_mm512_fmadd_ps(x[t], scale, shift));
    const auto ones = __m512bh(_mm512_set1_epi16(0x3F80));
    __m512 sum = _mm512_setzero_ps();
    UNROLL for (int t = 0; t < key_tiles; t += 2) {
      const auto rounded = __m512i(_mm512_cvtne2ps_pbh(x[t + 1], x[t]));
      _mm512_store_si512(weights_[at] + std::size_t(t) * line / 2, rounded);
      sum = _mm512_dpbf16_ps(sum, __m512bh(rounded), ones);
    }
    const float factor = now == softmax.highest ? 1 : std::exp2((softmax.highest - now) * log2_e);
    softmax.total = softmax.total * factor + _mm512_reduce_add_ps(sum);
    softmax.highest = now;
    return factor;
  }

  /// Returns 2^x, up to 2.4e-6 of it, a thousandth of what rounding to bf16 does; x is at most
  /// about 0. Below 2^-160 it is 0.
  static __m512 exp2(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-160), x); // In this order NaN stays NaN.
    const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 rest = _mm512_sub_ps(x, whole);
    __m512 y = _mm512_set1_ps(exp2_terms[0]);
    UNROLL for (int i = 1; i < 6; ++i) y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(exp2_terms[i]));
    return _mm512_scalef_ps(y, whole);
  }

  /// Adds weights times values of the keys that these queries see. at: of the first one's weights.
  template <int Count>
  void sum_values(int query, int at, const Sight& sight) {
    int d = 0;
    for (; d + 4 * tile_outputs <= kv_.head_dim; d += 4 * tile_outputs)
      sum_dimensions<Count, 4>(query, at, sight, d);
    for (; d < kv_.head_dim; d += tile_outputs)
      sum_dimensions<Count, 1>(query, at, sight, d);
  }

  /// Adds those of a pair of keys. seen: the bits of those keys that are seen, since a weight of 0
  /// would not hide a value that is not a number.
  template <unsigned seen, int Count, int Tiles>
  __attribute__((always_inline)) void add_pair(__m512 (&sum)[Count][Tiles], int at, int pair,
                                               int d) const {
    const std::byte* from = values_[pair] + std::size_t(d) * pair_bytes;
    __m512i values[Tiles];
    UNROLL for (int t = 0; t < Tiles; ++t) {
      values[t] = _mm512_loadu_si512(from + std::size_t(t) * line);
      if constexpr (seen != 0xFFFFFFFFu)
        values[t] = _mm512_and_si512(values[t], _mm512_set1_epi32(int(seen)));
    }
    UNROLL for (int i = 0; i < Count; ++i) {
      const __m512bh weight = broadcast(weights_[at + i] + std::size_t(pair) * pair_bytes);
      UNROLL for (int t = 0; t < Tiles; ++t) sum[i][t] =
          _mm512_dpbf16_ps(sum[i][t], __m512bh(values[t]), weight);
    }
  }

  /// Does so for Tiles * 16 dimensions from `d` on.
  template <int Count, int Tiles>
  void sum_dimensions(int query, int at, const Sight& sight, int d) {
    __m512 sum[Count][Tiles];
    UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int t = 0; t < Tiles; ++t) sum[i][t] =
        _mm512_loadu_ps(sums_of(query + i) + d + t * tile_outputs);
    int pair = sight.begin / 2;
    if (sight.begin % 2 != 0)
      add_pair<0xFFFF0000u>(sum, at, pair++, d);
    for (; 2 * pair + 1 < sight.end; ++pair)
      add_pair<0xFFFFFFFFu>(sum, at, pair, d);
    if (2 * pair < sight.end)
      add_pair<0x0000FFFFu>(sum, at, pair, d);
    UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int t = 0; t < Tiles; ++t)
        _mm512_storeu_ps(sums_of(query + i) + d + t * tile_outputs, sum[i][t]);
  }

  void finish() {
    for (int i = 0; i < queries_; ++i) {
      float* const out = out_.row(i / heads_) + i % heads_ * kv_.head_dim;
      const __m512 factor = _mm512_set1_ps(1 / softmax_[i].total);
      for (int d = 0; d < kv_.head_dim; d += tile_outputs)
        _mm512_storeu_ps(out + d, _mm512_mul_ps(_mm512_loadu_ps(sums_of(i) + d), factor));
    }
  }

  const Tensor out_;
  const Tensor q_;
  const std::span<const std::int32_t> positions_;
  const AttentionOptions& options_;
  const KvHead& kv_;
  const int heads_;
  const int queries_;
  const int pairs_; ///< Of dimensions.
  const bool keys_in_place_;
  WeighBlock& weigh_block_ = *highway_weigh_block(); ///< Not null where there is AVX-512.
  std::byte* gathered_;                              ///< [pair of dimensions][key][2]
  std::byte* staged_;                                ///< bf16, [query][head_dim]
  float* sums_;                                      ///< [query][head_dim]
  Softmax* softmax_;                                 ///< [query]
  const std::byte* keys_[key_tiles] = {};            ///< Tiles of the current block's keys.
  std::size_t key_stride_ = 0;                       ///< Bytes from one pair of dimensions on.
  const std::byte* values_[key_pairs] = {};          ///< Pairs of the current block's keys.
  alignas(64) float scores_[queries_together][key_block] = {};
  alignas(64) std::byte weights_[queries_together][key_block * 2] = {};
};

} // namespace

bool avx512_attends(const KvHead& kv) {
  return kv.type == KvType::bf16 && kv.head_dim % tile_outputs == 0 && highway_weigh_block();
}

void avx512_attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
                   const AttentionOptions& options, const KvHead& kv, Scratch& scratch) {
  const int together = std::max(1, panel_queries / (out.cols / kv.head_dim));
  for (int first = 0; first < out.rows; first += together) {
    const int rows = std::min(together, out.rows - first);
    Panel(out.slice(first, rows), q.slice(first, rows),
          positions.subspan(std::size_t(first), std::size_t(rows)), options, kv, scratch)
        .attend();
  }
}

} // namespace paceline::gpu::cpu

#undef UNROLL
PACELINE_TARGET_END

#endif
