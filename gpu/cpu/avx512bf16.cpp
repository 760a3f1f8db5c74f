// Products of bf16 weights, and of those that are decoded to bf16, by vdpbf16ps.
#include "gpu/cpu/avx512bf16.hpp"

#include "gpu/cpu/avx512_attention.hpp"
#include "gpu/cpu/avx512_rows.hpp"
#include "gpu/cpu/avx512_tiles.hpp"
#include "gpu/cpu/int8_rows.hpp"
#include "gpu/cpu/product_kernels.hpp"

#if defined(__x86_64__)

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TARGET)

#define UNROLL _Pragma("GCC unroll 16")

namespace paceline::gpu::cpu {
namespace {

/// Rows and weight tiles whose sums are in registers together if there are many rows: eight
/// broadcasts and three loads for 24 products.
constexpr int panel_rows = 8;
constexpr int panel_tiles = 3;
/// A single stream of weights is prefetched this far ahead, across tiles. A step of 16 rows takes
/// longer than a line takes to come, and leaves the hardware's prefetcher no room.
constexpr std::size_t prefetch_bytes = 16384;
/// Smaller weights are cached, and a row would wait for its own sums, so several tiles alternate.
constexpr std::size_t cached_bytes = std::size_t(4) << 20;

// A product. staged: blocks of row_block rows, each [pair of inputs][row of the block][2].
struct Product {
  Tensor out;
  const std::byte* staged = nullptr;
  const PackedWeight& w;
  bool add = false;
  Bf16Tiles tiles;

  int pairs() const { return w.padded_inputs() / 2; }
  int rows_of(int block) const { return std::min(row_block, out.rows - block * row_block); }
  const std::byte* rows(int block) const {
    return staged + std::size_t(block) * std::size_t(pairs()) * row_block * pair_bytes;
  }
};

inline __m512bh load(const std::byte* weights) {
  return __m512bh(_mm512_load_si512(weights));
}
/// Multiplies rows with Tiles tiles from `tile` on. in: the first of the rows' pairs, `stride`
/// bytes from one pair to the next. ahead: the line to prefetch, which advances with each step.
template <int Rows, int Tiles>
__attribute__((noinline)) void block(const Product& p, const std::byte* in, std::size_t stride,
                                     int row, int tile, const std::byte* ahead) {
  const std::size_t tile_bytes = p.tiles.tile_bytes;
  const std::byte* w = p.tiles.tile(tile);
  __m512 sum[Rows][Tiles];
  UNROLL for (int r = 0; r < Rows; ++r) UNROLL for (int t = 0; t < Tiles; ++t) sum[r][t] =
      _mm512_setzero_ps();
  for (int k = p.pairs(); k > 0; --k, w += line, in += stride, ahead += line) {
    __m512bh weights[Tiles];
    UNROLL for (int t = 0; t < Tiles; ++t) weights[t] = load(w + std::size_t(t) * tile_bytes);
    prefetch(ahead);
    UNROLL for (int r = 0; r < Rows; ++r) {
      const __m512bh x = broadcast(in + std::size_t(r) * pair_bytes);
      UNROLL for (int t = 0; t < Tiles; ++t) sum[r][t] = _mm512_dpbf16_ps(sum[r][t], weights[t], x);
    }
  }
  UNROLL for (int r = 0; r < Rows; ++r) UNROLL for (int t = 0; t < Tiles; ++t)
      finish(p.out, p.w, p.add, sum[r][t], row + r, tile + t);
}

/// Multiplies up to 16 rows; the weights are one stream, read from memory once.
template <int Rows = row_block>
void few_rows(const Product& p, int first, int last) {
  if constexpr (Rows > 1) {
    if (p.out.rows < Rows)
      return few_rows<Rows - 1>(p, first, last);
  }
  constexpr std::size_t stride = Rows * pair_bytes;
  if constexpr (Rows <= 4) {
    if (p.w.bytes() <= cached_bytes || p.w.format() != WeightFormat::bf16) // Decoded just now.
      for (; first + 4 <= last; first += 4)
        block<Rows, 4>(p, p.staged, stride, 0, first, p.tiles.tile(first));
  }
  for (; first < last; ++first)
    block<Rows, 1>(p, p.staged, stride, 0, first, p.tiles.tile(first) + prefetch_bytes);
}

/// Multiplies the rows of one staged block with Tiles tiles. next: what is prefetched meanwhile.
template <int Tiles>
void rows_of_block(const Product& p, int staged_block, int tile, const std::byte* next) {
  const int rows = p.rows_of(staged_block);
  const std::size_t stride = std::size_t(rows) * pair_bytes;
  const std::byte* in = p.rows(staged_block);
  const int first = staged_block * row_block;
  int r = 0;
  for (; r + panel_rows <= rows; r += panel_rows, next += p.tiles.tile_bytes)
    block<panel_rows, Tiles>(p, in + std::size_t(r) * pair_bytes, stride, first + r, tile, next);
  for (; r < rows; ++r)
    block<1, Tiles>(p, in + std::size_t(r) * pair_bytes, stride, first + r, tile, next);
}

/// Multiplies all rows with a panel of tiles that stays in the second-level cache; the next panel
/// is prefetched while the first rows pass.
template <int Tiles>
void panel(const Product& p, int tile) {
  const int blocks = (p.out.rows + row_block - 1) / row_block;
  const std::byte* const here = p.tiles.tile(tile);
  const std::byte* next = here + std::size_t(Tiles) * p.tiles.tile_bytes;
  for (int b = 0; b < blocks; ++b) {
    rows_of_block<Tiles>(p, b, tile, b < 2 ? next : here);
    next += 2 * p.tiles.tile_bytes;
  }
}

void many_rows(const Product& p, int first, int last) {
  for (; first + panel_tiles <= last; first += panel_tiles)
    panel<panel_tiles>(p, first);
  for (; first < last; ++first)
    panel<1>(p, first);
}

void all_rows(const Product& p, int first, int last) {
  if (p.out.rows <= row_block)
    few_rows(p, first, last);
  else
    many_rows(p, first, last);
}

/// Decodes a few tiles at a time to bf16, which stay in the second-level cache.
void by_decoded_tiles(Product p, int first, int last, Scratch& scratch) {
  constexpr int together = 4;
  std::byte* const decoded = scratch.at_least(together * p.w.bf16_tile_bytes());
  for (; first < last; first += together) {
    const int end = std::min(first + together, last);
    p.tiles = decode_tiles(p.w, first, end, decoded);
    all_rows(p, first, end);
  }
}

void few_rows_mx(const Product& p, TileRun run, Scratch& scratch) {
  for_moderate_tiles(p.w, run, [&](TileRun part, bool moderate) {
    if (moderate)
      avx512_linear_mx(p.out, p.staged, p.w, part, p.add);
    else
      by_decoded_tiles(p, part.first, part.last, scratch);
  });
}

class Avx512Bf16Kernels final : public ProductKernels {
public:
  const char* name() const override { return "avx512bf16"; }

  double multiply_adds(int rounds) const override {
    constexpr int sums = 16;
    __m512 sum[sums];
    UNROLL for (int i = 0; i < sums; ++i) sum[i] = _mm512_set1_ps(float(i));
    __m512bh ones = __m512bh(_mm512_set1_epi16(0x3F80));
    for (int round = 0; round < rounds; ++round) {
      asm volatile("" : "+v"(ones)); // Hides the value from the compiler.
      UNROLL for (__m512& one : sum) one = _mm512_dpbf16_ps(one, ones, ones);
    }
    UNROLL for (const __m512& one : sum) asm volatile("" ::"v"(one));
    return double(rounds) * sums * 32;
  }

  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    avx512_attends(kv) ? avx512_attend(out, q, positions, options, kv, scratch)
                       : to_.attend(out, q, positions, options, kv, scratch);
  }

protected:
  std::size_t own_staged_bytes(int rows, const PackedWeight& w) const override {
    return std::size_t(rows) * std::size_t(w.padded_inputs()) / 2 * pair_bytes;
  }

  void own_stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
                 int last) const override {
    avx512_stage_pairs(staged, in, w.padded_inputs(), first, last);
  }

  void own_linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
                  Scratch& scratch) const override {
    if (w.format() == WeightFormat::bf16)
      return all_rows({out, staged, w, add, tiles_of(w)}, run.first, run.last);
    const Product p{out, staged, w, add, {}};
    avx512_decodes_for(staged, out.rows, w) ? few_rows_mx(p, run, scratch)
                                            : by_decoded_tiles(p, run.first, run.last, scratch);
  }
};

} // namespace
} // namespace paceline::gpu::cpu

#undef UNROLL
PACELINE_TARGET_END

namespace paceline::gpu::cpu {

const Kernels* avx512bf16_kernels() {
  static const bool usable =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  if (!usable)
    return nullptr;
  static const Avx512Bf16Kernels kernels;
  return &kernels;
}

} // namespace paceline::gpu::cpu

#else

namespace paceline::gpu::cpu {

const Kernels* avx512bf16_kernels() {
  return nullptr;
}

} // namespace paceline::gpu::cpu

#endif
