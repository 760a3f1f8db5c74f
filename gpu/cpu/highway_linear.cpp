// Products of the portable kernels: a lane is an output, summed over the inputs from 0 on.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_linear.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"
#include "gpu/cpu/int8_rows.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// Registers for sums, the rest being for their operands (AVX2 has 16, the others 32), and rows of
/// a product that share the reading of weights.
constexpr int accumulators = lanes == 8 ? 12 : 16;
constexpr int rows_together = lanes == 16 ? 8 : accumulators / parts;

/// Returns how far ahead a tile's bytes are prefetched if rows pass over them once: the more
/// arithmetic there is between two loads, the less a processor looks ahead by itself.
constexpr std::size_t prefetch_bytes(int rows) {
  return rows > 2 ? 4096 : 1024;
}
/// Blocks of rows that share prefetching the next tiles.
constexpr int askers_max = 8;

struct Product {
  Tensor out;
  const float* rows = nullptr; // [rows, padded inputs]
  int inputs = 0;              // Padded.
  int outputs = 0;
  const std::byte* weights = nullptr; // Weights from tile `first_tile` on.
  int first_tile = 0;
  std::size_t tile_bytes = 0;
  bool add = false;

  const std::byte* tile(int index) const {
    return weights + std::size_t(index - first_tile) * tile_bytes;
  }
};

/// Bytes that are prefetched while a block is computed: at `from`, which advances by `stride` at
/// each step, for each of the block's tiles.
struct Ahead {
  const std::byte* from = nullptr;
  std::size_t stride = 0;
};

/// Computes Rows x Tiles blocks of 16 outputs, in registers.
template <class Read, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int row, int tile, Ahead ahead) {
  constexpr std::size_t step = 2 * tile_outputs * Read::bytes; // Bytes of two inputs.
  const int inputs = p.inputs;
  const float* x = p.rows + std::size_t(row) * std::size_t(inputs);
  const std::byte* w = p.tile(tile);
  const std::size_t tile_bytes = p.tile_bytes;
  V16 acc[Rows][Tiles];
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { acc[r][t] = splat(0); }); });
  for (int k = 0; k < inputs; k += 2, w += step, ahead.from += ahead.stride) {
    const auto accumulate = [&](auto t, const V16& weights, int input) INLINED {
      repeat<Rows>([&](auto r) INLINED {
        const V16 in = splat(x[std::size_t(r) * std::size_t(inputs) + std::size_t(input)]);
        acc[r][t] = mul_add(weights, in, acc[r][t]);
      });
    };
    repeat<Tiles>([&](auto t) INLINED {
      const std::byte* at = w + std::size_t(t) * tile_bytes;
      for (std::size_t line = 0; line < step; line += 64)
        hwy::Prefetch(ahead.from + std::size_t(t) * tile_bytes + line);
      accumulate(t, Read::even(at, tile_outputs), k);
    });
    repeat<Tiles>([&](auto t) INLINED {
      accumulate(t, Read::odd(w + std::size_t(t) * tile_bytes, tile_outputs), k + 1);
    });
  }
  repeat<Rows>([&](auto r) INLINED {
    repeat<Tiles>([&](auto t) INLINED {
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.outputs - first);
      float* out = p.out.row(row + r) + first;
      store_n(p.add ? add(load_n(out, count), acc[r][t]) : acc[r][t], out, count);
    });
  });
}

template <int Rows>
constexpr int tiles_together = std::clamp(accumulators / (Rows * parts), 1, 4);

/// Multiplies all rows with tiles [tile, tile + Tiles) while these are in the cache. The rows form
/// as few blocks as possible, the first of Rows, with sizes that differ by at most one. The first
/// block reads what comes from memory; so that the others need not wait for it, all blocks prefetch
/// the next tiles.
template <class Read, int Rows, int Tiles>
HWY_INLINE void product_rows(const Product& p, int tile) {
  constexpr std::size_t step = 2 * tile_outputs * Read::bytes;
  const int blocks = divide_up(p.out.rows, rows_together);
  if (blocks == 1)
    return product_block<Read, Rows, Tiles>(p, 0, tile,
                                            {p.tile(tile) + prefetch_bytes(Rows), step});
  if constexpr (2 * Rows > rows_together) { // Several blocks have more than half of the most rows.
    const auto askers = std::size_t(std::min(blocks, askers_max));
    const std::byte* next = p.tile(tile + Tiles);
    int row = 0;
    for (int block = 0; block < blocks; ++block) {
      Ahead ahead{p.tile(tile), 0};
      if (block < askers_max)
        ahead = {next + std::size_t(block) * (p.tile_bytes / askers), step / askers};
      const int rows = divide_up(p.out.rows - row, blocks - block);
      if (rows == Rows)
        product_block<Read, Rows, Tiles>(p, row, tile, ahead);
      else
        product_block<Read, Rows - 1, Tiles>(p, row, tile, ahead);
      row += rows;
    }
  }
}

/// Multiplies all rows with tiles [first, last): the more rows, the fewer tiles at a time, since
/// the registers hold a fixed number of sums.
template <class Read>
HWY_INLINE void product(const Product& p, int first, int last) {
  const int blocks = divide_up(p.out.rows, rows_together);
  with_constant<rows_together>(divide_up(p.out.rows, blocks), [&](auto rows) INLINED {
    constexpr int together = tiles_together<rows>;
    for (; first + together <= last; first += together)
      product_rows<Read, rows, together>(p, first);
    for (; first < last; ++first)
      product_rows<Read, rows, 1>(p, first);
  });
}

/// Multiplies more rows than decoding in registers pays for with a microscaling weight: a few tiles
/// at a time are decoded to bf16, and stay in the cache while all rows pass over them.
void product_decoded(Product p, const PackedWeight& w, int first, int last, Scratch& scratch) {
  constexpr int together = 4;
  const std::size_t tile_bytes = w.bf16_tile_bytes();
  std::byte* const decoded = scratch.at_least(together * tile_bytes);
  p.weights = decoded;
  p.tile_bytes = tile_bytes;
  for (; first < last; first += together) {
    const int end = std::min(first + together, last);
    for (int tile = first; tile < end; ++tile)
      decode_blocks(w, tile, 0, w.blocks(), decoded + std::size_t(tile - first) * tile_bytes);
    p.first_tile = first;
    product<ReadBf16>(p, first, end);
  }
}

/// Multiplies few rows with a microscaling weight; its moderate tiles are decoded in registers.
void product_few(const Product& p, const PackedWeight& w, TileRun run, Scratch& scratch) {
  for_moderate_tiles(w, run, [&](TileRun part, bool moderate) {
    if (moderate)
      linear_mx(p.out, p.rows, w, part, p.add, scratch);
    else
      product_decoded(p, w, part.first, part.last, scratch);
  });
}

bool all_moderate(const Product& p) {
  for (int r = 0; r < p.out.rows; ++r)
    if (!moderate(p.rows + std::size_t(r) * std::size_t(p.inputs), p.inputs))
      return false;
  return true;
}

} // namespace

void linear(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
            Scratch& scratch) {
  if (out.rows == 0)
    return;
  const Product p{out, staged, w.padded_inputs(), w.outputs(), w.tile(0), 0, w.tile_bytes(), add};
  switch (w.format()) {
  case WeightFormat::f32: return product<ReadF32>(p, run.first, run.last);
  case WeightFormat::f16: return product<ReadF16>(p, run.first, run.last);
  case WeightFormat::bf16: return product<ReadBf16>(p, run.first, run.last);
  default: break;
  }
  if (has_scaled_codes(w.format()))
    return linear_codes(out, staged, w, run, add, scratch);
  if (out.rows <= mx_rows_max && all_moderate(p))
    return product_few(p, w, run, scratch);
  product_decoded(p, w, run.first, run.last, scratch);
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
