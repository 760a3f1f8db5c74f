// Products of the portable kernels: an output is a lane, summed over the inputs from 0 on.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_linear.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// Registers for sums, the rest being for their operands (AVX2 has 16, the others 32), and rows
/// of a product that share what is read of the weights.
constexpr int accumulators = lanes == 8 ? 8 : 16;
constexpr int rows_together = lanes == 16 ? 8 : 4;

/// How far ahead of the reading a tile's bytes are asked for.
constexpr std::size_t prefetch_bytes = 1024;

struct Product {
  Tensor out;
  const float* rows = nullptr; // [rows, padded inputs]
  const PackedWeight& w;
  bool add = false;
};

/// Rows x Tiles blocks of 16 outputs, in registers.
template <class Read, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int row, int tile) {
  constexpr std::size_t step = 2 * tile_outputs * Read::bytes; // Of two inputs.
  const int inputs = p.w.padded_inputs();
  const float* x = p.rows + std::size_t(row) * std::size_t(inputs);
  const std::byte* w = p.w.tile(tile);
  const std::size_t tile_bytes = p.w.tile_bytes();
  V16 acc[Rows][Tiles];
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { acc[r][t] = splat(0); }); });
  for (int k = 0; k < inputs; k += 2, w += step) {
    V16 weights[Tiles];
    const auto accumulate = [&](int input) INLINED {
      repeat<Rows>([&](auto r) INLINED {
        const V16 in = splat(x[std::size_t(r) * std::size_t(inputs) + std::size_t(input)]);
        repeat<Tiles>([&](auto t) INLINED { acc[r][t] = mul_add(weights[t], in, acc[r][t]); });
      });
    };
    repeat<Tiles>([&](auto t) INLINED {
      const std::byte* at = w + std::size_t(t) * tile_bytes;
      for (std::size_t line = 0; line < step; line += 64)
        hwy::Prefetch(at + prefetch_bytes + line);
      weights[t] = Read::even(at, tile_outputs);
    });
    accumulate(k);
    repeat<Tiles>([&](auto t) INLINED {
      weights[t] = Read::odd(w + std::size_t(t) * tile_bytes, tile_outputs);
    });
    accumulate(k + 1);
  }
  repeat<Rows>([&](auto r) INLINED {
    repeat<Tiles>([&](auto t) INLINED {
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.w.outputs() - first);
      float* out = p.out.row(row + r) + first;
      store_n(p.add ? add(load_n(out, count), acc[r][t]) : acc[r][t], out, count);
    });
  });
}

template <int Rows>
constexpr int tiles_together = std::clamp(accumulators / (Rows * parts), 1, 4);

/// All rows against tiles [tile, tile + Tiles) while those are in the cache: blocks of Rows, and of
/// halves of that for the rest.
template <class Read, int Tiles, int Rows>
HWY_INLINE void product_rows(const Product& p, int row, int tile) {
  for (; row + Rows <= p.out.rows; row += Rows)
    product_block<Read, Rows, Tiles>(p, row, tile);
  if constexpr (Rows > 1)
    product_rows<Read, Tiles, Rows / 2>(p, row, tile);
}

/// The more rows, the fewer tiles at a time: the registers hold so many sums.
template <class Read, int Rows = rows_together>
HWY_INLINE void product(const Product& p, int first, int last) {
  if constexpr (Rows > 1) {
    if (p.out.rows < Rows)
      return product<Read, Rows / 2>(p, first, last);
  }
  constexpr int together = tiles_together<Rows>;
  for (; first + together <= last; first += together)
    product_rows<Read, together, Rows>(p, 0, first);
  for (; first < last; ++first)
    product_rows<Read, 1, Rows>(p, 0, first);
}

} // namespace

void linear(Tensor out, const float* staged, const PackedWeight& w, int first, int last, bool add) {
  const Product p{out, staged, w, add};
  switch (w.dtype()) {
  case DType::f32: return product<ReadF32>(p, first, last);
  case DType::f16: return product<ReadF16>(p, first, last);
  case DType::bf16: return product<ReadBf16>(p, first, last);
  }
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
