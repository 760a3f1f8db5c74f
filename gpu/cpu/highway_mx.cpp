// Microscaling weights in the portable kernels. An element's code becomes one byte, by a table if
// it has fewer bits: an integer, or a float of 8 bits whose exponent is shifted into f32's place.
// Either is the element in some unit, a power of two, and so is a block's scale. Sums are kept in
// both units, and converted when the next block has another scale, which rounds nothing as long as
// scales and rows are moderate. So few rows cost no multiplication for each element, and their
// product still has the bits of the bf16 weight's. Rows or tiles that are not moderate are
// multiplied like many rows.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_mx.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/denormals.hpp"
#include "gpu/cpu/highway_words-inl.hpp"
#include "gpu/mx.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// The integers of E2M1's codes, in halves.
constexpr Table of_e2m1{{0, 1, 2, 3, 4, 6, 8, 12, 0, 255, 254, 253, 252, 250, 248, 244}};

/// Tables for E5M2, in which the subnormal numbers of E3M2 are normal. The lowest bit has different
/// steps in three cases: normal numbers, zero and the least number, and the two others.
constexpr SixBitTables tables_of_e3m2() {
  constexpr int steps[] = {0x01, 0x2C, 0x02};
  SixBitTables t{};
  for (int i = 0; i < 16; ++i) {
    t.first.bytes[i] = std::uint8_t(i > 1 ? 2 * i + 0x30 : i * 0x30);
    t.index.bytes[i] = std::uint8_t(i > 1 ? 0 : (i + 1) << 2);
    t.second.bytes[i] = std::uint8_t((i & 2 ? 0x80 : 0) + (i & 1 && i < 12 ? steps[i >> 2] : 0));
  }
  return t;
}
template <const MxElement& E>
constexpr SixBitTables six_bit_tables = &E == &e2m3 ? tables_of_e2m3() : tables_of_e3m2();

/// Inputs and words of a run, after which the order of a block's codes repeats itself.
template <const MxElement& E>
constexpr int run_inputs = E.bits() == 6 ? 16 : 32 / E.bits();
template <const MxElement& E>
constexpr int run_words = run_inputs<E>* E.bits() / 32;

/// Returns the bytes of inputs 4 `four` to 4 `four` + 3 of a run.
template <const MxElement& E, int four>
HWY_INLINE W16 bytes_of(const std::uint32_t* run) {
  const W16 word = load_words(run + four / (E.bits() == 8 ? 1 : 2) * tile_outputs);
  if constexpr (E.bits() == 8)
    return word;
  return each_word([&](int i) INLINED {
    const auto low = bits_of_bytes<four % 2 * 4>(word.part[i], 15);
    if constexpr (E.bits() == 4) {
      return look_up(of_e2m1, low);
    } else {
      const auto last = hn::LoadU(Words(), run + 2 * tile_outputs + i * lanes);
      const auto pair = bits_of_bytes<2 * four>(last, 3);
      constexpr const SixBitTables& tables = six_bit_tables<E>;
      const auto index = &E == &e2m3 ? low : look_up(tables.index, low);
      const auto first = hn::BitCast(Bytes(), look_up(tables.first, low));
      const auto second = hn::BitCast(Bytes(), look_up(tables.second, hn::Xor(index, pair)));
      return hn::BitCast(Words(), hn::Add(first, second));
    }
  });
}

/// Whether bytes are integers. Otherwise they are floats of 8 bits, in f32's place with the
/// exponent's bias too small, so that subnormal ones become denormal numbers.
template <const MxElement& E>
constexpr bool by_integers = E.integer() || &E == &e2m1 || &E == &e2m3;

/// The unit of the values: `value` times this is the element.
template <const MxElement& E>
constexpr float unit = by_integers<E>
                           ? 0x1p-24f / float(1 << (E.mantissa_bits + E.bias - 1 + E.integer()))
                       : &E == &e4m3 ? 0x1p120f
                                     : 0x1p112f;

/// Converts byte `j` of each word to floats in units of `unit`.
template <const MxElement& E, int j>
HWY_INLINE V16 value(const W16& bytes) {
  return each([&](int i) INLINED {
    const hn::Vec<Words> word = bytes.part[i];
    if constexpr (by_integers<E>) {
      return hn::ConvertTo(D(), hn::BitCast(hn::RebindToSigned<D>(), highest_byte<j>(word)));
    } else {
      // Two bytes at a time are in the upper halves of 16 bits: the sign stays, zeros fill in
      // below.
      constexpr int shift = &E == &e4m3 ? 4 : 3;
      auto pair = hn::BitCast(hn::Repartition<std::int16_t, D>(), word);
      if constexpr (j % 2 == 0)
        pair = hn::ShiftLeft<8>(pair);
      auto placed = hn::BitCast(Words(), hn::ShiftRight<shift>(pair));
      if constexpr (j < 2)
        placed = hn::ShiftLeft<16>(placed);
      const auto bits = hn::Set(Words(), 0x80000000u | 0x7F000000u >> shift);
      return hn::BitCast(D(), hn::And(placed, bits));
    }
  });
}

HWY_INLINE W16 load_codes(const std::byte* scales) {
  return each_word([&](int i) INLINED {
    const auto* at = reinterpret_cast<const std::uint8_t*>(scales) + i * lanes;
    return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), at));
  });
}
/// Loads scales. 2^-127 becomes 0, like every number below f32's normal ones on a lane.
HWY_INLINE V16 load_scales(const std::byte* scales) {
  const W16 codes = load_codes(scales);
  return each([&](int i) INLINED {
    const auto power = hn::ShiftLeft<23>(codes.part[i]);
    const auto no_number = hn::Eq(codes.part[i], hn::Set(Words(), std::uint32_t(mx_nan_scale)));
    return hn::BitCast(D(), hn::Or(power, hn::VecFromMask(Words(), no_number))); // All ones is NaN.
  });
}
/// Returns the factors that convert sums from units of the scales at `from` to those at `to`.
HWY_INLINE V16 rescaling(const std::byte* from, const std::byte* to) {
  const W16 before = load_codes(from), after = load_codes(to);
  return each([&](int i) INLINED {
    const auto exponent = hn::Add(hn::Sub(before.part[i], after.part[i]), hn::Set(Words(), 127u));
    return hn::BitCast(D(), hn::ShiftLeft<23>(exponent));
  });
}

struct Product {
  Tensor out;
  const float* rows = nullptr; // [rows, padded inputs], times row_unit
  const PackedWeight& w;
  bool add = false;
};

/// Decoding leaves the processor no room to look ahead by itself. If several tiles share few rows,
/// codes of 8 bits are read as fast as memory gives them, so what follows these tiles is prefetched
/// in the order of memory, as one stream, into the second-level cache. Otherwise decoding takes
/// longer than memory, and a tile's words are prefetched into the first-level cache, this far ahead
/// (at the tile's end, the words of the tile that is next in its place).
constexpr std::size_t prefetch_bytes = 2048;
template <const MxElement& E, int Tiles>
constexpr bool as_one_stream = E.bits() == 8 && Tiles > 1;

HWY_INLINE void ask_stream(const std::byte* next, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64)
    __builtin_prefetch(next + line, 0, 2);
}
HWY_INLINE void ask_ahead(const std::byte* elements, std::size_t left, std::size_t to_next,
                          std::size_t bytes) {
  elements += left > prefetch_bytes ? prefetch_bytes : prefetch_bytes + to_next;
  for (std::size_t line = 0; line < bytes; line += 64)
    hwy::Prefetch(elements + line);
}

/// Factor of rows, for elements so small that products would be denormal.
template <const MxElement& E>
constexpr float row_unit = by_integers<E> ? 1 : 0x1p110f;

// No sum is denormal or infinite, whatever its units: moderate numbers of rows are multiples of
// 2^-67 below 2^16 (bf16 has 8 bits, see kernels.hpp), elements are multiples of 2^-16 up to 2^16,
// scales are from 2^-31 to 2^8. So sums are multiples of 2^-114, and below 2^61 for 2^21 inputs. In
// the units of another scale, of elements and of rows they are at least 2^-125 and below 2^114.

/// Computes Rows x Tiles blocks of 16 outputs, in registers.
template <const MxElement& E, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int row, int tile) {
  const auto inputs = std::size_t(p.w.padded_inputs());
  const std::size_t tile_bytes = p.w.tile_bytes();
  const std::byte* scales = p.w.tile(tile);
  const std::byte* before = scales;
  const std::byte* elements = scales + p.w.scale_bytes();
  const std::byte* const end = scales + tile_bytes;
  constexpr std::size_t run_bytes = run_words<E> * tile_outputs * sizeof(std::uint32_t);
  V16 acc[Rows][Tiles];
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { acc[r][t] = splat(0); }); });
  const float* x = p.rows + std::size_t(row) * inputs;
  for (int block = 0; block < p.w.blocks(); ++block) {
    repeat<Tiles>([&](auto t) INLINED {
      const V16 factor = rescaling(before + t * tile_bytes, scales + t * tile_bytes);
      repeat<Rows>([&](auto r) INLINED { acc[r][t] = mul(acc[r][t], factor); });
      if constexpr (!as_one_stream<E, Tiles>)
        ask_ahead(elements + t * tile_bytes, std::size_t(end - elements), (Tiles - 1) * tile_bytes,
                  p.w.block_bytes());
    });
    if constexpr (as_one_stream<E, Tiles>)
      ask_stream(end + (Tiles - 1) * tile_bytes + std::size_t(block) * Tiles * p.w.block_bytes(),
                 Tiles * p.w.block_bytes());
    before = scales;
    scales += tile_outputs;
    for (int run = 0; run < mx_block / run_inputs<E>; ++run, elements += run_bytes)
      repeat<run_inputs<E> / 4>([&](auto four) INLINED {
        W16 bytes[Tiles];
        repeat<Tiles>([&](auto t) INLINED {
          const std::byte* at = elements + t * tile_bytes;
          bytes[t] = bytes_of<E, four>(reinterpret_cast<const std::uint32_t*>(at));
        });
        repeat<4>([&](auto j) INLINED {
          repeat<Tiles>([&](auto t) INLINED { // Alternating tiles do not wait for each other.
            const V16 weights = value<E, j>(bytes[t]);
            repeat<Rows>([&](auto r) INLINED {
              const V in = hn::Set(D(), x[r * inputs + j]);
              acc[r][t] = mul_add(weights, each([&](int) INLINED { return in; }), acc[r][t]);
            });
          });
        });
        x += 4;
      });
  }
  repeat<Tiles>([&](auto t) INLINED {
    const V16 units = mul(load_scales(before + t * tile_bytes), splat(unit<E> / row_unit<E>));
    repeat<Rows>([&](auto r) INLINED {
      const V16 sum = mul(acc[r][t], units);
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.w.outputs() - first);
      float* out = p.out.row(row + r) + first;
      store_n(p.add ? add(load_n(out, count), sum) : sum, out, count);
    });
  });
}

template <const MxElement& E>
const float* in_row_units(const Product& p, Scratch& scratch) {
  const int count = p.out.rows * p.w.padded_inputs();
  auto* scaled = reinterpret_cast<float*>(scratch.at_least(std::size_t(count) * sizeof(float)));
  for (int i = 0; i < count; i += tile_outputs)
    store(mul(load(p.rows + i), splat(row_unit<E>)), scaled + i);
  return scaled;
}

/// Rows that share the decoding of a weight, which has to leave registers for their sums.
constexpr int rows_together = 4;
/// Tiles at a time: as many as leave registers for what is decoded.
template <int Rows>
constexpr int tiles_together = Rows <= 2 ? 2 : 1;

/// Multiplies all rows with tiles [tile, tile + Tiles), in blocks of Rows or one less. Each block
/// decodes the tiles again, for which the multiplications leave room.
template <const MxElement& E, int Rows, int Tiles>
HWY_INLINE void product_rows(const Product& p, int tile) {
  const int blocks = divide_up(p.out.rows, rows_together);
  for (int block = 0, row = 0; block < blocks; ++block) {
    const int rows = divide_up(p.out.rows - row, blocks - block);
    if (rows == Rows)
      product_block<E, Rows, Tiles>(p, row, tile);
    else if constexpr (2 * Rows > rows_together)
      product_block<E, Rows - 1, Tiles>(p, row, tile);
    row += rows;
  }
}

template <const MxElement& E>
void product(Product p, int first, int last, Scratch& scratch) {
  if constexpr (!by_integers<E>)
    p.rows = in_row_units<E>(p, scratch);
  const int blocks = divide_up(p.out.rows, rows_together);
  with_constant<rows_together>(divide_up(p.out.rows, blocks), [&](auto rows) INLINED {
    constexpr int together = tiles_together<rows>;
    for (; first + together <= last; first += together)
      product_rows<E, rows, together>(p, first);
    for (; first < last; ++first)
      product_rows<E, rows, 1>(p, first);
  });
}

template <const MxElement& E>
void decode(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const std::byte* elements = w.tile(tile) + w.scale_bytes() + std::size_t(first) * w.block_bytes();
  for (int block = first; block < last; ++block) {
    const V16 scale = load_scales(w.tile(tile) + block * tile_outputs);
    for (int run = 0; run < mx_block / run_inputs<E>; ++run) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(elements);
      repeat<run_inputs<E> / 4>([&](auto four) INLINED {
        const W16 bytes = bytes_of<E, four>(words);
        repeat<2>([&](auto pair) INLINED {
          const V16 even = mul(mul(value<E, 2 * pair>(bytes), splat(unit<E>)), scale);
          const V16 odd = mul(mul(value<E, 2 * pair + 1>(bytes), splat(unit<E>)), scale);
          repeat<parts>([&](auto i) INLINED {
            const auto low = hn::ShiftRight<16>(hn::BitCast(Words(), even.part[i]));
            const auto high =
                hn::And(hn::BitCast(Words(), odd.part[i]), hn::Set(Words(), 0xFFFF0000u));
            hn::StoreU(hn::Or(low, high), Words(),
                       reinterpret_cast<std::uint32_t*>(to) + i * lanes);
          });
          to += tile_outputs * sizeof(std::uint32_t);
        });
      });
      elements += run_words<E> * tile_outputs * sizeof(std::uint32_t);
    }
  }
}

} // namespace

bool moderate(const float* row, int inputs) {
  V16 least = splat(1);
  V16 most = splat(0);
  for (int i = 0; i < inputs; i += tile_outputs) {
    const V16 size = each([&](int part) INLINED { return hn::Abs(load(row + i).part[part]); });
    most = max(most, size);
    least = each([&](int part) INLINED {
      const V x = size.part[part];
      return hn::IfThenElse(hn::Eq(x, hn::Zero(D())), least.part[part],
                            hn::Min(x, least.part[part]));
    });
  }
  least = each([&](int part) INLINED { return hn::Neg(least.part[part]); });
  return highest(most) < 0x1p16f && highest(least) <= -0x1p-60f;
}

void linear_mx(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
               Scratch& scratch) {
  const TakeDenormals denormals;
  switch (w.format()) {
  case WeightFormat::mxfp8:
    return product<e4m3>({out, staged, w, add}, run.first, run.last, scratch);
  case WeightFormat::mxfp8_e5m2:
    return product<e5m2>({out, staged, w, add}, run.first, run.last, scratch);
  case WeightFormat::mxfp6:
    return product<e2m3>({out, staged, w, add}, run.first, run.last, scratch);
  case WeightFormat::mxfp6_e3m2:
    return product<e3m2>({out, staged, w, add}, run.first, run.last, scratch);
  case WeightFormat::mxfp4:
    return product<e2m1>({out, staged, w, add}, run.first, run.last, scratch);
  default: return product<int8>({out, staged, w, add}, run.first, run.last, scratch);
  }
}

void decode_blocks(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const TakeDenormals denormals;
  switch (w.format()) {
  case WeightFormat::mxfp8: return decode<e4m3>(w, tile, first, last, to);
  case WeightFormat::mxfp8_e5m2: return decode<e5m2>(w, tile, first, last, to);
  case WeightFormat::mxfp6: return decode<e2m3>(w, tile, first, last, to);
  case WeightFormat::mxfp6_e3m2: return decode<e3m2>(w, tile, first, last, to);
  case WeightFormat::mxfp4: return decode<e2m1>(w, tile, first, last, to);
  default: return decode<int8>(w, tile, first, last, to);
  }
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
