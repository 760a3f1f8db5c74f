// Scaled codes in the portable kernels. A part's codes become small integers, their products with a
// row are summed by themselves, and the sum is added to the row's in units of the part's scale, so
// a code costs no multiplication of its own. A part's least value is multiplied with the sum of its
// inputs, which is staged with the row. For few rows, codes are decoded in registers; for many, a
// tile's integers are decoded once. Both ways have the same sums, in the same order.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_codes.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway_words-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// Unit of the numbers: integers are in the highest byte of 32 bits when they are converted to
/// floats, and scales are multiplied by this unit.
constexpr float number_unit = 0x1p-24f;

/// Stands for the bits of a code where a tile holds decoded floats.
constexpr int decoded = 32;

struct Product {
  Tensor out;
  const float* rows = nullptr; // [rows, padded inputs]
  const float* sums = nullptr; // [rows, parts], if there are least values
  const PackedWeight& w;
  bool add = false;
  Table numbers;                   // Integers of codes of 4 bits.
  std::uint8_t offset = 0;         // Subtracted from other codes.
  const std::byte* tile = nullptr; // A decoded tile.
};

/// Inputs after which the order of codes repeats itself, and the bytes of their codes.
template <int bits>
constexpr int run_inputs = bits == 4   ? 8
                           : bits == 5 ? 32
                           : bits == 6 ? 16
                                       : 4;
template <int bits>
constexpr std::size_t run_bytes = std::size_t(run_inputs<bits>) * bits / 8 * tile_outputs;

/// Returns the integers of inputs 4 `four` to 4 `four` + 3 of a run, as bytes.
template <int bits, int four>
HWY_INLINE W16 bytes_of(const Product& p, const std::byte* at) {
  const auto* run = reinterpret_cast<const std::uint32_t*>(at);
  const W16 word = load_words(run + four / (bits == 8 ? 1 : 2) * tile_outputs);
  if constexpr (bits == 8)
    return word;
  return each_word([&](int i) INLINED {
    const auto low = bits_of_bytes<four % 2 * 4>(word.part[i], 15);
    if constexpr (bits == 4) {
      return look_up(p.numbers, low);
    } else {
      constexpr int above = bits - 4;
      const auto last = hn::LoadU(Words(), run + run_inputs<bits> / 8 * tile_outputs + i * lanes);
      const auto high = hn::ShiftLeft<4>(bits_of_bytes<above * four>(last, (1 << above) - 1));
      const auto code = hn::BitCast(Bytes(), hn::Or(low, high));
      return hn::BitCast(Words(), hn::Sub(code, hn::Set(Bytes(), p.offset)));
    }
  });
}

template <int j>
HWY_INLINE V16 number(const W16& bytes) {
  return each([&](int i) INLINED {
    const auto placed = highest_byte<j>(bytes.part[i]);
    return hn::ConvertTo(D(), hn::BitCast(hn::RebindToSigned<D>(), placed));
  });
}

HWY_INLINE V16 load_halves(const std::byte* from) {
  return ReadF16::even(from, 0);
}
HWY_INLINE V16 load_int8(const std::byte* from) {
  return each([&](int i) INLINED {
    const auto* at = reinterpret_cast<const std::int8_t*>(from) + i * lanes;
    const auto wide =
        hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(hn::Rebind<std::int8_t, D>(), at));
    return hn::ConvertTo(D(), wide);
  });
}

/// Computes the scales, or least values, of a part of Tiles tiles: the block's, times the part's if
/// blocks have several parts.
template <int Tiles>
HWY_INLINE void of_part(V16 (&to)[Tiles], const V16 (&whole)[Tiles], const std::byte* own,
                        std::size_t tile_bytes, bool several) {
  repeat<Tiles>([&](auto t) INLINED {
    to[t] = several ? mul(whole[t], load_int8(own + t * tile_bytes)) : whole[t];
  });
}

/// Adds the products of one run. x: its inputs of the first row.
template <int bits, int Rows, int Tiles>
HWY_INLINE void accumulate(V16 (&sum)[Rows][Tiles], const Product& p, const float* x,
                           const std::byte* words, std::size_t stride) {
  const auto inputs = std::size_t(p.w.padded_inputs());
  repeat<run_inputs<bits> / 4>([&](auto four) INLINED {
    W16 bytes[Tiles];
    if constexpr (bits != decoded)
      repeat<Tiles>([&](auto t)
                        INLINED { bytes[t] = bytes_of<bits, four>(p, words + t * stride); });
    repeat<4>([&](auto j) INLINED {
      repeat<Tiles>([&](auto t) INLINED {
        V16 weights;
        if constexpr (bits == decoded)
          weights = load(reinterpret_cast<const float*>(words + t * stride) + j * tile_outputs);
        else
          weights = number<j>(bytes[t]);
        repeat<Rows>([&](auto r) INLINED {
          const V in = hn::Set(D(), x[r * inputs + 4 * four + j]);
          sum[r][t] = mul_add(weights, each([&](int) INLINED { return in; }), sum[r][t]);
        });
      });
    });
  });
}

template <int Rows, int Tiles>
HWY_INLINE void clear(V16 (&sum)[Rows][Tiles]) {
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { sum[r][t] = splat(0); }); });
}

/// Computes Rows x Tiles blocks of 16 outputs. The next tiles are prefetched into the second-level
/// cache, in the order of memory.
template <int bits, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int row, int tile) {
  const ScaledCodes& how = p.w.codes();
  const std::size_t tile_bytes = p.w.tile_bytes();
  const std::size_t numbers = how.least ? 2 : 1; // A scale, and maybe a least value.
  const bool several = how.parts() > 1;
  const int runs = how.part / run_inputs<bits>;
  const std::byte* record = p.w.tile(tile);
  const std::byte* words = bits == decoded ? p.tile : record + p.w.scale_bytes();
  const std::byte* next = record + Tiles * tile_bytes;
  const std::size_t next_bytes =
      bits == decoded ? 0 : Tiles * tile_bytes / std::size_t(p.w.parts()) + 1;
  const float* x = p.rows + row * std::ptrdiff_t(p.w.padded_inputs());
  const float* sums = p.sums + row * std::ptrdiff_t(p.w.parts());
  V16 sum[Rows][Tiles];
  clear(sum);
  for (int at = 0; at < p.w.parts(); record += p.w.record_bytes()) {
    V16 scale[Tiles], least[Tiles];
    repeat<Tiles>([&](auto t) INLINED {
      const std::byte* halves = record + t * tile_bytes;
      scale[t] = mul(load_halves(halves), splat(number_unit));
      least[t] = how.least ? load_halves(halves + 2 * tile_outputs) : splat(0);
    });
    const std::byte* own = record + 2 * tile_outputs * numbers;
    for (int part = 0; part < how.parts(); ++part, ++at, own += tile_outputs * numbers) {
      for (std::size_t line = 0; line < next_bytes; line += 64)
        __builtin_prefetch(next + line, 0, 2);
      next += next_bytes;
      V16 partial[Rows][Tiles];
      clear(partial);
      for (int run = 0; run < runs; ++run, x += run_inputs<bits>, words += run_bytes<bits>)
        accumulate<bits>(partial, p, x, words, tile_bytes);
      V16 factor[Tiles];
      of_part(factor, scale, own, tile_bytes, several);
      repeat<Rows>([&](auto r) INLINED {
        repeat<Tiles>([&](auto t)
                          INLINED { sum[r][t] = mul_add(factor[t], partial[r][t], sum[r][t]); });
      });
      if (!how.least)
        continue;
      of_part(factor, least, own + tile_outputs, tile_bytes, several);
      repeat<Rows>([&](auto r) INLINED {
        const V16 inputs = splat(sums[r * std::size_t(p.w.parts()) + std::size_t(at)]);
        repeat<Tiles>([&](auto t) INLINED { sum[r][t] = mul_add(factor[t], inputs, sum[r][t]); });
      });
    }
  }
  repeat<Tiles>([&](auto t) INLINED {
    repeat<Rows>([&](auto r) INLINED {
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.w.outputs() - first);
      float* out = p.out.row(row + r) + first;
      store_n(p.add ? add(load_n(out, count), sum[r][t]) : sum[r][t], out, count);
    });
  });
}

/// Decodes a tile's integers to floats, in units of number_unit.
template <int bits>
void decode(const Product& p, int tile, std::byte* to) {
  const std::byte* words = p.w.tile(tile) + p.w.scale_bytes();
  for (int i = 0; i < p.w.padded_inputs(); i += run_inputs<bits>, words += run_bytes<bits>)
    repeat<run_inputs<bits> / 4>([&](auto four) INLINED {
      const W16 bytes = bytes_of<bits, four>(p, words);
      repeat<4>([&](auto j) INLINED {
        store(number<j>(bytes), reinterpret_cast<float*>(to));
        to += tile_outputs * sizeof(float);
      });
    });
}

/// Rows that share a pass over a tile.
constexpr int rows_together = 4;

template <int bits>
void few_rows(const Product& p, int first, int last) {
  with_constant<rows_together>(p.out.rows, [&](auto rows) INLINED {
    constexpr int together = rows <= 2 ? 2 : 1;
    for (; first + together <= last; first += together)
      product_block<bits, rows, together>(p, 0, first);
    for (; first < last; ++first)
      product_block<bits, rows, 1>(p, 0, first);
  });
}

/// Sets p's tile. p is no copy, because GCC 12 takes a copy on the address sanitizer's own stack to
/// be aligned to a vector, while it is aligned to half of one.
template <int bits>
void many_rows(Product& p, int first, int last, Scratch& scratch) {
  std::byte* const room =
      scratch.at_least(std::size_t(p.w.padded_inputs()) * tile_outputs * sizeof(float));
  p.tile = room;
  for (; first < last; ++first) {
    decode<bits>(p, first, room);
    for (int row = 0; row < p.out.rows; row += rows_together)
      with_constant<rows_together>(std::min(rows_together, p.out.rows - row),
                                   [&](auto rows)
                                       INLINED { product_block<decoded, rows, 1>(p, row, first); });
  }
}

template <int bits>
void product(Product& p, int first, int last, Scratch& scratch) {
  if (p.out.rows <= rows_together)
    few_rows<bits>(p, first, last);
  else
    many_rows<bits>(p, first, last, scratch);
}

} // namespace

void sum_parts(const float* row, int part, int parts_of_row, float* sums) {
  for (int i = 0; i < parts_of_row; ++i, row += part) {
    const V16 first = load(row);
    sums[i] = sum(part == 32 ? add(first, load(row + tile_outputs)) : first);
  }
}

void linear_codes(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
                  Scratch& scratch) {
  const ScaledCodes& how = w.codes();
  Product p{out, staged, staged + out.rows * std::ptrdiff_t(w.padded_inputs()), w, add, {}};
  for (int code = 0; code < 16; ++code)
    p.numbers.bytes[code] = std::uint8_t(how.numbers[std::size_t(code)]);
  p.offset = std::uint8_t(-how.numbers[0]);
  switch (how.bits) {
  case 4: return product<4>(p, run.first, run.last, scratch);
  case 5: return product<5>(p, run.first, run.last, scratch);
  case 6: return product<6>(p, run.first, run.last, scratch);
  default: return product<8>(p, run.first, run.last, scratch);
  }
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
