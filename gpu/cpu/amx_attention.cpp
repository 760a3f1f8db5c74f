// Attention over a cache of bf16 or int8 on AMX tiles. A tile is up to 16 queries, scores are
// queries times keys, sums are weights times values, and between the two is a running softmax over
// blocks of keys (FlashAttention, Dao et al. 2022). Queries and weights are rounded to bf16.
//
// Codes of 8 bits become bf16, which has them all, where they are copied; scores and weights are
// multiplied by their scales.
//
// A cache of bf16 stores keys in an operand's order already (pairs of dimensions by slots), so keys
// are loaded in place if tiles fit the page. Values (pairs of slots by dimensions) are copied once
// for all queries of a panel, because pages are shorter than a tile, and because values that no row
// sees must be 0 (0 times NaN is NaN). One kernel serves one row and many rows, so no other
// instructions need to give the same bits as a tile.
#include "gpu/cpu/amx_tiles.hpp"

#if defined(__x86_64__)

#include "gpu/cpu/highway.hpp"

#include <cstring>
#include <utility>

PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// Queries of a panel, unless one row has more. More queries share the copy of values, fewer stay
/// in the cache.
constexpr int panel_queries = 64;
constexpr int value_steps = key_block / tile_inputs; ///< Steps of products with a block's weights.
constexpr int key_tiles = key_block / tile_outputs;  ///< Tiles of 16 keys in a block.
constexpr int score_row = key_block * int(sizeof(float));
constexpr int pair_bytes = 4; ///< Two dimensions of a key, or two keys' values of a dimension.

int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}

/// The memory that a panel needs beside its arguments.
struct Workspace {
  Workspace(Scratch& scratch, int queries, int head_dim) {
    const auto tiles = std::size_t(round_up(queries, row_block) / row_block);
    const auto steps = std::size_t(round_up(head_dim, tile_inputs) / tile_inputs);
    width = round_up(head_dim, tile_outputs);
    const std::size_t bytes[] = {tiles * steps * tile_size,
                                 steps * key_tiles * tile_size,
                                 std::size_t(value_steps * width / tile_outputs) * tile_size,
                                 std::size_t(row_block) * score_row,
                                 value_steps * tile_size,
                                 tiles * row_block * std::size_t(width) * sizeof(float),
                                 tiles * row_block * sizeof(Softmax)};
    std::size_t total = 0;
    for (const std::size_t part : bytes)
      total += part;
    std::byte* next = scratch.at_least(total);
    const std::size_t* size = bytes;
    const auto take = [&] { return std::exchange(next, next + *size++); };
    queries_staged = take();
    keys = take();
    values = take();
    scores = reinterpret_cast<float*>(take());
    weights = take();
    sums = reinterpret_cast<float*>(take());
    softmax = reinterpret_cast<Softmax*>(take());
  }

  int width = 0;             ///< head_dim, rounded up to whole tiles.
  std::byte* queries_staged; ///< bf16, [tile][32 dimensions][16][32]
  std::byte* keys;           ///< bf16, [pair of dimensions][key][2]: keys that are not in place.
  std::byte* values;         ///< bf16, [32 keys][16 dimensions][pair of keys][dimension][2]
  float* scores;             ///< [16][key_block], for one tile of queries.
  std::byte* weights;        ///< bf16, [32 keys][16][32]
  float* sums;               ///< [query][width]
  Softmax* softmax;          ///< [query]
};

/// Rows whose queries are multiplied with the keys together.
class Panel {
public:
  Panel(Tensor out, Tensor q, std::span<const std::int32_t> positions,
        const AttentionOptions& options, const KvHead& kv, Scratch& scratch)
      : out_(out), q_(q), positions_(positions), options_(options), kv_(kv),
        heads_(out.cols / kv.head_dim), queries_(out.rows * heads_),
        steps_(round_up(kv.head_dim, tile_inputs) / tile_inputs), codes_(kv.type == KvType::int8),
        keys_in_place_(!codes_ && kv.page_tokens % tile_outputs == 0 &&
                       kv.head_dim % tile_inputs == 0),
        seen_{options.first_seen(positions.front()), positions.back() + 1},
        seen_by_all_{options.first_seen(positions.back()), positions.front() + 1},
        work_(scratch, queries_, kv.head_dim) {}

  /// Returns false, with nothing written, if a value that only some of the rows see is not finite.
  bool attend() {
    configure_tiles(std::min(queries_, row_block));
    begin();
    for (int block = seen_.begin / key_block * key_block; block < seen_.end; block += key_block) {
      if (!copy_values(block))
        return false;
      find_keys(block);
      for (int tile = 0; tile * row_block < queries_; ++tile) {
        score(tile);
        weigh(tile, block);
        sum_values(tile);
      }
    }
    finish();
    return true;
  }

private:
  struct Span {
    int begin;
    int end;
    bool holds(int position) const { return position >= begin && position < end; }
  };

  void begin() {
    for (int i = 0; i < queries_; ++i) {
      stage_row(work_.queries_staged + std::size_t(i / row_block * steps_) * tile_size +
                    std::size_t(i % row_block) * tile_row,
                q_.row(i / heads_) + i % heads_ * kv_.head_dim, kv_.head_dim);
      work_.softmax[i] = Softmax::begin(options_.from_head(i % heads_).sinks);
    }
    std::fill_n(work_.sums, queries_ * work_.width, 0.0f);
    if (!keys_in_place_) // Clears what fills up the last step of dimensions.
      std::memset(work_.keys + kv_.head_dim / 2 * key_block * pair_bytes, 0,
                  std::size_t(steps_ * row_block - kv_.head_dim / 2) * key_block * pair_bytes);
  }

  /// Finds the tiles of a block's keys. A tile that no row sees is read from one that some row
  /// sees; its scores are not used.
  void find_keys(int block) {
    if (!keys_in_place_)
      gather_keys(block);
    for (int tile = 0; tile < key_tiles; ++tile) {
      const int first = block + tile * tile_outputs;
      const int nearest = std::clamp(first, seen_.begin / tile_outputs * tile_outputs,
                                     (seen_.end - 1) / tile_outputs * tile_outputs);
      keys_[tile] = keys_in_place_ ? kv_.keys(nearest / kv_.page_tokens) +
                                         nearest % kv_.page_tokens * pair_bytes
                                   : work_.keys + tile * tile_row;
    }
    key_stride_ = std::size_t(keys_in_place_ ? kv_.page_tokens : key_block) * pair_bytes;
  }

  void gather_keys(int block) {
    const int last = std::min(block + key_block, seen_.end);
    for (int key = std::max(block, seen_.begin), next = 0; key < last; key = next) {
      const int page = key / kv_.page_tokens;
      next = std::min((page + 1) * kv_.page_tokens, last);
      if (codes_) {
        expand_keys(page, key, next - key, block);
        continue;
      }
      const std::byte* from = kv_.keys(page) + key % kv_.page_tokens * pair_bytes;
      for (int pair = 0; pair < kv_.head_dim / 2; ++pair)
        std::memcpy(work_.keys + (pair * key_block + key - block) * pair_bytes,
                    from + pair * kv_.page_tokens * pair_bytes,
                    std::size_t(next - key) * pair_bytes);
    }
  }

  /// Copies the codes of a page's keys from `key` on as bf16, and the scales of keys and values.
  void expand_keys(int page, int key, int count, int block) {
    const int slot = key % kv_.page_tokens;
    std::copy_n(kv_.key_scales(page) + slot, count, key_scales_ + key - block);
    std::copy_n(kv_.value_scales(page) + slot, count, value_scales_ + key - block);
    const std::byte* from = kv_.keys(page) + slot;
    std::byte* to = work_.keys + (key - block) * pair_bytes;
    for (int d = 0; d < kv_.head_dim; d += 2, to += key_block * pair_bytes)
      for (int i = 0; i < count; i += tile_outputs) {
        const __mmask16 mask = first_lanes(count - i);
        const std::byte* at = from + d * kv_.page_tokens + i;
        _mm512_mask_storeu_epi32(to + i * pair_bytes, mask,
                                 pairs_of_codes(at, at + kv_.page_tokens, mask));
      }
  }

  /// Returns the bits of codes as f32, whose lower halves are 0.
  static __m512i numbers_of(const std::byte* codes, __mmask16 mask) {
    const __m128i bytes = _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(mask, codes));
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
  }
  /// Returns pairs of bf16 from two rows of codes, the first row's in the lower halves.
  static __m512i pairs_of_codes(const std::byte* first, const std::byte* second, __mmask16 mask) {
    return _mm512_or_si512(_mm512_srli_epi32(numbers_of(first, mask), 16),
                           numbers_of(second, mask));
  }

  /// Returns the values of 16 dimensions of two keys that stand in one page, in pairs.
  __m512i pairs_of_values(const std::byte* from, int d) const {
    const __mmask16 mask = first_lanes(kv_.head_dim - d);
    return codes_ ? pairs_of_codes(from + d, from + kv_.head_dim + d, mask)
                  : _mm512_maskz_loadu_epi32(mask, from + d * pair_bytes);
  }

  /// Copies a block's values, with zeros where no row of the panel sees. Returns false if a value
  /// that only some rows see is not finite: a weight of 0 would not hide it from the others.
  bool copy_values(int block) {
    const std::size_t number_bytes = codes_ ? 1 : pair_bytes / 2;
    bool good = true;
    for (int pair = 0; pair < key_block / 2; ++pair) {
      const int key = block + 2 * pair;
      const unsigned wanted = pair_mask(seen_, key);
      const unsigned disputed = wanted & ~pair_mask(seen_by_all_, key);
      const __m512i mask = _mm512_set1_epi32(int(wanted));
      const std::byte* from = nullptr;
      if (wanted != 0)
        from = kv_.values(key / kv_.page_tokens) +
               std::size_t(key % kv_.page_tokens * kv_.head_dim) * number_bytes;
      std::byte* to = work_.values +
                      std::size_t(pair / row_block * work_.width / tile_outputs) * tile_size +
                      std::size_t(pair % row_block) * tile_row;
      for (int d = 0; d < kv_.head_dim; d += tile_outputs, to += tile_size) {
        __m512i values = _mm512_setzero_si512();
        if (from)
          values = _mm512_and_si512(mask, pairs_of_values(from, d));
        _mm512_store_si512(to, values);
        good = good && (disputed == 0 || finite(values, disputed));
      }
    }
    return good;
  }

  /// Returns the bits, in a pair of keys first and first + 1, of those that `keys` holds.
  static unsigned pair_mask(const Span& keys, int first) {
    return (keys.holds(first) ? 0xFFFFu : 0) | (keys.holds(first + 1) ? 0xFFFF0000u : 0);
  }

  static bool finite(__m512i values, unsigned pair_mask) {
    const __m512i exponent = _mm512_set1_epi16(0x7F80);
    const __m512i wanted = _mm512_set1_epi32(int(pair_mask & 0x7F807F80u));
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(values, wanted), exponent) == 0;
  }

  void score(int tile) {
    const std::byte* q = work_.queries_staged + std::size_t(tile * steps_) * tile_size;
    written(q);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    std::size_t at = 0;
    for (int step = 0; step < steps_; ++step, q += tile_size, at += row_block * key_stride_) {
      _tile_loadd(4, q, tile_row);
      _tile_loadd(6, keys_[0] + at, key_stride_);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, keys_[1] + at, key_stride_);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(6, keys_[2] + at, key_stride_);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, keys_[3] + at, key_stride_);
      _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, work_.scores, score_row);
    _tile_stored(1, work_.scores + tile_outputs, score_row);
    _tile_stored(2, work_.scores + 2 * tile_outputs, score_row);
    _tile_stored(3, work_.scores + 3 * tile_outputs, score_row);
  }

  /// Turns scores into weights, and scales the sums so far to fit them.
  void weigh(int tile, int block) {
    const int count = std::min(row_block, queries_ - tile * row_block);
    for (int i = 0; i < count; ++i) {
      const int query = tile * row_block + i;
      const int position = positions_[std::size_t(query / heads_)];
      const int begin = std::max(options_.first_seen(position) - block, 0);
      const int end = std::min(position + 1 - block, key_block);
      float* scores = work_.scores + i * key_block;
      if (begin < end) {
        if (codes_)
          scale_codes(scores, key_scales_, begin, end);
        scale(query, weigh_block_(work_.softmax[query], scores, begin, end, options_));
        if (codes_)
          scale_codes(scores, value_scales_, begin, end);
      } else {
        std::fill_n(scores, key_block, 0.0f);
      }
      stage_row(work_.weights + i * tile_row, scores, key_block);
    }
  }

  /// Multiplies numbers [begin, end) of a block by their keys' or values' scales; the others become
  /// 0, whatever is in the pages.
  static void scale_codes(float* numbers, const float* scales, int begin, int end) {
    for (int j = 0; j < key_block; j += tile_outputs) {
      const auto mask = __mmask16(first_lanes(end - j) & ~first_lanes(begin - j));
      _mm512_storeu_ps(numbers + j, _mm512_maskz_mul_ps(mask, _mm512_loadu_ps(numbers + j),
                                                        _mm512_loadu_ps(scales + j)));
    }
  }

  void scale(int query, float factor) {
    if (factor == 1)
      return;
    float* sums = work_.sums + query * work_.width;
    for (int d = 0; d < work_.width; d += tile_outputs)
      _mm512_store_ps(sums + d, _mm512_mul_ps(_mm512_load_ps(sums + d), _mm512_set1_ps(factor)));
  }

  void sum_values(int tile) {
    const int columns = work_.width / tile_outputs;
    written(work_.weights);
    int column = 0;
    for (; column + 4 <= columns; column += 4)
      sum_columns<4>(tile, column);
    if (columns - column == 3)
      sum_columns<3>(tile, column);
    else if (columns - column == 2)
      sum_columns<2>(tile, column);
    else if (columns - column == 1)
      sum_columns<1>(tile, column);
  }

  /// Sums Count (1 to 4) tiles of 16 dimensions, side by side.
  template <int Count>
  void sum_columns(int tile, int column) {
    float* sums = work_.sums + tile * row_block * work_.width + column * tile_outputs;
    const auto stride = std::size_t(work_.width) * sizeof(float);
    _tile_loadd(0, sums, stride);
    if constexpr (Count > 1)
      _tile_loadd(1, sums + tile_outputs, stride);
    if constexpr (Count > 2)
      _tile_loadd(2, sums + 2 * tile_outputs, stride);
    if constexpr (Count > 3)
      _tile_loadd(3, sums + 3 * tile_outputs, stride);
    for (int step = 0; step < value_steps; ++step) {
      const std::byte* values =
          work_.values + std::size_t(step * work_.width / tile_outputs + column) * tile_size;
      _tile_loadd(4, work_.weights + std::size_t(step) * tile_size, tile_row);
      _tile_loadd(6, values, tile_row);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (Count > 1) {
        _tile_loadd(7, values + tile_size, tile_row);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (Count > 2) {
        _tile_loadd(6, values + 2 * tile_size, tile_row);
        _tile_dpbf16ps(2, 4, 6);
      }
      if constexpr (Count > 3) {
        _tile_loadd(7, values + 3 * tile_size, tile_row);
        _tile_dpbf16ps(3, 4, 7);
      }
    }
    _tile_stored(0, sums, stride);
    if constexpr (Count > 1)
      _tile_stored(1, sums + tile_outputs, stride);
    if constexpr (Count > 2)
      _tile_stored(2, sums + 2 * tile_outputs, stride);
    if constexpr (Count > 3)
      _tile_stored(3, sums + 3 * tile_outputs, stride);
  }

  void finish() {
    for (int i = 0; i < queries_; ++i) {
      const float* sums = work_.sums + i * work_.width;
      float* out = out_.row(i / heads_) + i % heads_ * kv_.head_dim;
      const __m512 factor = _mm512_set1_ps(1 / work_.softmax[i].total);
      for (int d = 0; d < kv_.head_dim; d += tile_outputs)
        _mm512_mask_storeu_ps(out + d, first_lanes(kv_.head_dim - d),
                              _mm512_mul_ps(_mm512_load_ps(sums + d), factor));
    }
  }

  const Tensor out_;
  const Tensor q_;
  const std::span<const std::int32_t> positions_;
  const AttentionOptions& options_;
  const KvHead& kv_;
  const int heads_;
  const int queries_;
  const int steps_;  ///< Steps of 32 dimensions.
  const bool codes_; ///< Whether the cache is of int8.
  const bool keys_in_place_;
  const Span seen_;        ///< Positions that any row sees.
  const Span seen_by_all_; ///< Positions that all rows see; may be empty.
  const Workspace work_;
  WeighBlock& weigh_block_ = *highway_weigh_block(); ///< Not null where there are tiles.
  const std::byte* keys_[key_tiles] = {};            ///< Tiles of the current block's keys.
  std::size_t key_stride_ = 0;       ///< Bytes from one pair of dimensions to the next.
  float key_scales_[key_block] = {}; ///< Of the current block's keys and values of int8.
  float value_scales_[key_block] = {};
};

} // namespace

void attend_on_tiles(Tensor out, Tensor q, std::span<const std::int32_t> positions,
                     const AttentionOptions& options, const KvHead& kv, Scratch& scratch) {
  const int together = std::max(1, panel_queries / (out.cols / kv.head_dim));
  for (int first = 0; first < out.rows; first += together) {
    const int rows = std::min(together, out.rows - first);
    const auto attend = [&](int from, int count) {
      return Panel(out.slice(from, count), q.slice(from, count),
                   positions.subspan(std::size_t(from), std::size_t(count)), options, kv, scratch)
          .attend();
    };
    if (!attend(first, rows))
      for (int row = first; row < first + rows; ++row)
        attend(row, 1); // A single row sees all or nothing of a value.
  }
  _tile_release();
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
