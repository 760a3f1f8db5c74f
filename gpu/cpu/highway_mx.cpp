// Microscaling weights in the portable kernels. Every floating-point element is an f16 with a short
// exponent: shifted into its place it becomes one, subnormals and all, which the processor widens;
// what the exponents' biases differ by goes into the block's scale. Those of 4 bits, which are
// read fastest, are looked up instead. The product of element and scale is a number that bf16 has,
// and is summed as the bf16 weight's would be.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_mx.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"
#include "gpu/mx.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

using Words = hn::CappedTag<std::uint16_t, tile_outputs>;
constexpr int word_lanes = int(hn::MaxLanes(Words()));
constexpr int word_parts = tile_outputs / word_lanes;

/// A word of each output.
struct W16 {
  hn::Vec<Words> part[word_parts];
};

template <class F>
HWY_INLINE W16 each_word(const F& f) {
  W16 result;
  repeat<word_parts>([&](auto i) INLINED { result.part[i] = f(i); });
  return result;
}
template <int count>
HWY_INLINE W16 shift_left(const W16& x) {
  if constexpr (count == 0)
    return x;
  else
    return each_word([&](int i) INLINED { return hn::ShiftLeft<count>(x.part[i]); });
}
HWY_INLINE W16 mask(const W16& x, std::uint16_t bits) {
  return each_word([&](int i) INLINED { return hn::And(x.part[i], hn::Set(Words(), bits)); });
}
HWY_INLINE W16 either(const W16& a, const W16& b) {
  return each_word([&](int i) INLINED { return hn::Or(a.part[i], b.part[i]); });
}

/// How many codes a run of whole words holds: of 8 bits four, else eight.
template <const MxElement& E>
constexpr int run_codes = E.bits() == 8 ? 4 : 8;
template <const MxElement& E>
constexpr int run_words = run_codes<E>* E.bits() / 16;

/// Code `j` of a run of words, in the words' highest bits; below it is whatever else is there.
template <const MxElement& E, int j>
HWY_INLINE W16 code(const std::uint16_t* words) {
  const auto word = [&](int number) INLINED {
    return each_word([&](int i) INLINED {
      return hn::LoadU(Words(), words + number * tile_outputs + i * word_lanes);
    });
  };
  if constexpr (E.bits() == 6 && j == 6)
    return either(shift_left<12>(word(0)), mask(shift_left<8>(word(1)), 0x0C00));
  else if constexpr (E.bits() == 6 && j == 7)
    return either(shift_left<14>(word(1)), mask(shift_left<10>(word(2)), 0x3C00));
  else
    return shift_left<j % (16 / E.bits()) * E.bits()>(word(j / (16 / E.bits())));
}

/// Part i of 16 floats from words: those lanes of one vector of them.
template <class To>
HWY_INLINE hn::Vec<To> lanes_of(To, const W16& x, int i) {
  if constexpr (word_lanes == lanes) {
    return hn::BitCast(To(), x.part[i]);
  } else {
    const hn::Half<Words> half;
    const auto& whole = x.part[i / 2];
    return hn::BitCast(To(), i % 2 == 0 ? hn::LowerHalf(half, whole) : hn::UpperHalf(half, whole));
  }
}

/// What elements are multiplied with beside their scale, `value` leaving it out.
template <const MxElement& E>
constexpr float unit = E.integer() ? 1 / float(1 << E.mantissa_bits) : float(1 << (15 - E.bias));
template <>
constexpr float unit<e2m1> = 1;

/// Code j of a run, as floats in units of `unit`.
template <const MxElement& E, int j>
HWY_INLINE V16 value(const std::uint16_t* words) {
  using Signed = hn::RebindToSigned<Words>;
  const W16 top = code<E, j>(words);
  if constexpr (E.integer()) {
    return each([&](int i) INLINED {
      const hn::Rebind<std::int16_t, D> narrow;
      const auto whole = hn::ShiftRight<8>(lanes_of(narrow, top, i));
      return hn::ConvertTo(D(), hn::PromoteTo(hn::RebindToSigned<D>(), whole));
    });
  } else {
    constexpr int shift = 5 - E.exponent_bits; // The sign stays; zeros go in below it.
    constexpr int kept = 10 - E.mantissa_bits;
    constexpr auto bits = std::uint16_t(0x8000 | ((E.sign_bit() - 1) << kept));
    const W16 shifted = each_word([&](int i) INLINED {
      return hn::BitCast(Words(), hn::ShiftRight<shift>(hn::BitCast(Signed(), top.part[i])));
    });
    const W16 half = mask(shifted, bits);
    return each([&](int i) INLINED {
      return hn::PromoteTo(D(), lanes_of(hn::Rebind<hwy::float16_t, D>(), half, i));
    });
  }
}

/// The upper and the lower byte of a 4-bit element as bf16.
alignas(16) constexpr std::uint8_t upper_bytes[16] = {
    0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, 0x80, 0xBF, 0xBF, 0xBF, 0xC0, 0xC0, 0xC0, 0xC0};
alignas(16) constexpr std::uint8_t lower_bytes[16] = {
    0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0, 0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0};

/// f(pair, the even, the odd element's floats) for inputs 4 half + 2 pair of a run of eight.
template <int half, class F>
HWY_INLINE void looked_up_half(const std::uint16_t* words, const F& f) {
  using Bytes = hn::Repartition<std::uint8_t, D>;
  using Wide = hn::RebindToUnsigned<D>;
  const hn::Repartition<std::uint16_t, D> shorts;
  hn::Vec<Wide> pairs[2][parts];
  repeat<parts>([&](auto i) INLINED {
    auto codes = hn::LoadU(shorts, words + i * lanes * 2);
    if constexpr (half == 1)
      codes = hn::ShiftRight<4>(codes);
    const auto index = hn::And(hn::BitCast(Bytes(), codes), hn::Set(Bytes(), 0x0F));
    const auto upper = hn::TableLookupBytes(hn::LoadDup128(Bytes(), upper_bytes), index);
    const auto lower = hn::TableLookupBytes(hn::LoadDup128(Bytes(), lower_bytes), index);
    pairs[0][i] = hn::BitCast(Wide(), hn::InterleaveLower(lower, upper));
    pairs[1][i] = hn::BitCast(Wide(), hn::InterleaveUpper(Bytes(), lower, upper));
  });
  repeat<2>([&](auto pair) INLINED {
    const V16 even =
        each([&](int i) INLINED { return hn::BitCast(D(), hn::ShiftLeft<16>(pairs[pair][i])); });
    const V16 odd = each([&](int i) INLINED {
      return hn::BitCast(D(), hn::And(pairs[pair][i], hn::Set(Wide(), 0xFFFF0000u)));
    });
    f(std::integral_constant<int, 2 * half + pair>(), even, odd);
  });
}

/// f(pair, the even, the odd element's floats, in units of `unit`) for each pair of inputs of a
/// run.
template <const MxElement& E, class F>
HWY_INLINE void each_pair(const std::uint16_t* words, const F& f) {
  if constexpr (E.bits() == 4) {
    looked_up_half<0>(words, f);
    looked_up_half<1>(words, f);
  } else {
    repeat<run_codes<E> / 2>([&](auto pair) INLINED {
      f(pair, value<E, 2 * pair>(words), value<E, 2 * pair + 1>(words));
    });
  }
}

/// 2^-127 is taken for 0, as every number below f32's normal ones is on a lane.
template <const MxElement& E>
HWY_INLINE V16 load_scales(const std::byte* scales) {
  const hn::RebindToUnsigned<D> wide;
  return each([&](int i) INLINED {
    const auto* at = reinterpret_cast<const std::uint8_t*>(scales) + i * lanes;
    const auto code = hn::PromoteTo(wide, hn::LoadU(hn::Rebind<std::uint8_t, D>(), at));
    const V power = hn::Mul(hn::BitCast(D(), hn::ShiftLeft<23>(code)), hn::Set(D(), unit<E>));
    const auto no_number = hn::Eq(code, hn::Set(wide, std::uint32_t(mx_nan_scale)));
    return hn::Or(power, hn::BitCast(D(), hn::VecFromMask(wide, no_number))); // All ones is NaN.
  });
}

struct Product {
  Tensor out;
  const float* rows = nullptr; // [rows, padded inputs]
  const PackedWeight& w;
  bool add = false;
};

/// How far ahead a tile's elements are asked for: decoding leaves the processor no room to look
/// ahead by itself.
constexpr std::size_t prefetch_bytes = 2048;

/// Rows x Tiles blocks of 16 outputs, in registers.
template <const MxElement& E, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int tile) {
  const int inputs = p.w.padded_inputs();
  const std::size_t tile_bytes = p.w.tile_bytes();
  const std::byte* scales = p.w.tile(tile);
  const std::byte* elements = scales + p.w.scale_bytes();
  constexpr std::size_t run_bytes = run_words<E> * tile_outputs * sizeof(std::uint16_t);
  constexpr int runs = mx_block / run_codes<E>;
  V16 acc[Rows][Tiles];
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { acc[r][t] = splat(0); }); });
  const float* x = p.rows;
  for (int k = 0; k < inputs; k += mx_block, scales += tile_outputs) {
    V16 scale[Tiles];
    repeat<Tiles>([&](auto t) INLINED {
      scale[t] = load_scales<E>(scales + std::size_t(t) * tile_bytes);
      for (std::size_t line = 0; line < runs * run_bytes; line += 64)
        hwy::Prefetch(elements + std::size_t(t) * tile_bytes + prefetch_bytes + line);
    });
    for (int run = 0; run < runs; ++run, elements += run_bytes, x += run_codes<E>)
      repeat<Tiles>([&](auto t) INLINED {
        const auto* words =
            reinterpret_cast<const std::uint16_t*>(elements + std::size_t(t) * tile_bytes);
        const auto accumulate = [&](const V16& element, int input) INLINED {
          const V16 weights = mul(element, scale[t]);
          repeat<Rows>([&](auto r) INLINED {
            const V16 in = splat(x[std::size_t(r) * std::size_t(inputs) + std::size_t(input)]);
            acc[r][t] = mul_add(weights, in, acc[r][t]);
          });
        };
        each_pair<E>(words, [&](auto pair, const V16& even, const V16& odd) INLINED {
          accumulate(even, 2 * pair);
          accumulate(odd, 2 * pair + 1);
        });
      });
  }
  repeat<Rows>([&](auto r) INLINED {
    repeat<Tiles>([&](auto t) INLINED {
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.w.outputs() - first);
      float* out = p.out.row(r) + first;
      store_n(p.add ? add(load_n(out, count), acc[r][t]) : acc[r][t], out, count);
    });
  });
}

template <const MxElement& E, int Rows = mx_rows_max>
HWY_INLINE void product(const Product& p, int first, int last) {
  if constexpr (Rows > 1) {
    if (p.out.rows < Rows)
      return product<E, Rows - 1>(p, first, last);
  }
  constexpr int together = Rows == 1 ? 2 : 1;
  for (; first + together <= last; first += together)
    product_block<E, Rows, together>(p, first);
  for (; first < last; ++first)
    product_block<E, Rows, 1>(p, first);
}

template <const MxElement& E>
void decode(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const hn::RebindToUnsigned<D> wide;
  const std::byte* elements = w.tile(tile) + w.scale_bytes() + std::size_t(first) * w.block_bytes();
  for (int block = first; block < last; ++block) {
    const V16 scale = load_scales<E>(w.tile(tile) + block * tile_outputs);
    for (int run = 0; run < mx_block / run_codes<E>; ++run) {
      const auto* words = reinterpret_cast<const std::uint16_t*>(elements);
      each_pair<E>(words, [&](auto, const V16& first_element, const V16& second_element) INLINED {
        const V16 even = mul(first_element, scale);
        const V16 odd = mul(second_element, scale);
        repeat<parts>([&](auto i) INLINED {
          const auto low = hn::ShiftRight<16>(hn::BitCast(wide, even.part[i]));
          const auto high = hn::And(hn::BitCast(wide, odd.part[i]), hn::Set(wide, 0xFFFF0000u));
          hn::StoreU(hn::Or(low, high), wide, reinterpret_cast<std::uint32_t*>(to) + i * lanes);
        });
        to += tile_outputs * sizeof(std::uint32_t);
      });
      elements += run_words<E> * tile_outputs * sizeof(std::uint16_t);
    }
  }
}

} // namespace

void linear_mx(Tensor out, const float* staged, const PackedWeight& w, int first, int last,
               bool add) {
  const Product p{out, staged, w, add};
  switch (w.format()) {
  case WeightFormat::mxfp8: return product<e4m3>(p, first, last);
  case WeightFormat::mxfp8_e5m2: return product<e5m2>(p, first, last);
  case WeightFormat::mxfp6: return product<e2m3>(p, first, last);
  case WeightFormat::mxfp6_e3m2: return product<e3m2>(p, first, last);
  case WeightFormat::mxfp4: return product<e2m1>(p, first, last);
  default: return product<int8>(p, first, last);
  }
}

void decode_blocks(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
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
