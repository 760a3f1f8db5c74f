// Encodes numbers of a tile to blocks of a microscaling format. It does what encode_block
// (gpu/mx.hpp) does, in the same order and with the same roundings; a lane is an output.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_quantize.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"
#include "gpu/mx.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

using Ints = hn::RebindToSigned<D>;
using IntV = hn::Vec<Ints>;

constexpr int exponent_bias = 127; ///< Bias of E8M0 and of f32.
constexpr int f32_mantissa_bits = 23;

HWY_INLINE IntV ints(int x) {
  return hn::Set(Ints(), x);
}
HWY_INLINE IntV bits_of(V x) {
  return hn::BitCast(Ints(), x);
}
HWY_INLINE IntV magnitude_of(V x) {
  return hn::And(bits_of(x), ints(0x7FFFFFFF));
}
HWY_INLINE V as_float(IntV bits) {
  return hn::BitCast(D(), bits);
}
/// Returns 2^-exponent, which may be f32's 2^-127.
HWY_INLINE V unit_of(IntV exponent) {
  const IntV bits = hn::ShiftLeft<f32_mantissa_bits>(hn::Sub(ints(exponent_bias), exponent));
  return as_float(hn::Max(bits, ints(1 << (f32_mantissa_bits - 1))));
}

/// The codes of `lanes` outputs' blocks, and their rounding errors.
struct Codes {
  alignas(64) std::int32_t code[mx_block][lanes];
  V squared_error; ///< Squared error, in the scale's units.
};

struct Element {
  IntV code;
  V error;
};

/// Encodes x, which is in the scale's units.
template <const MxElement& E>
HWY_INLINE Element encode_float(V x) {
  constexpr int least_exponent = 1 - E.bias + exponent_bias;
  const V integers = hn::Set(D(), 0x1p23f);
  const IntV magnitude = magnitude_of(x);
  const IntV exponent = hn::Max(hn::ShiftRight<f32_mantissa_bits>(magnitude), ints(least_exponent));
  const V up = as_float(hn::ShiftLeft<f32_mantissa_bits>(
      hn::Sub(ints(E.mantissa_bits + 2 * exponent_bias), exponent)));
  const V down =
      as_float(hn::ShiftLeft<f32_mantissa_bits>(hn::Sub(exponent, ints(E.mantissa_bits))));
  const V shown = hn::Mul(as_float(magnitude), up);
  const IntV whole = hn::Sub(bits_of(hn::Add(shown, integers)), bits_of(integers));
  const IntV code =
      hn::Add(hn::ShiftLeft<E.mantissa_bits>(hn::Sub(exponent, ints(least_exponent))), whole);
  const V kept = hn::Min(hn::Mul(hn::ConvertTo(D(), whole), down), hn::Set(D(), E.largest()));
  const IntV sign = hn::And(hn::ShiftRight<32 - E.bits()>(bits_of(x)), ints(E.sign_bit()));
  return {hn::Or(hn::Min(code, ints(E.largest_code)), sign), hn::Sub(as_float(magnitude), kept)};
}

HWY_INLINE Element encode_integer(V x) {
  constexpr float units = 64;
  const V integers = hn::Set(D(), 0x1.8p23f);
  x = hn::Mul(x, hn::Set(D(), units));
  const IntV whole = hn::Sub(bits_of(hn::Add(x, integers)), bits_of(integers));
  const IntV kept = hn::Max(hn::Min(whole, ints(int8.largest_code)), ints(-int8.largest_code));
  return {hn::And(kept, ints(0xFF)),
          hn::Mul(hn::Sub(x, hn::ConvertTo(D(), kept)), hn::Set(D(), 1 / units))};
}

/// Encodes with scales of 2^exponent. values: `lanes` columns of [mx_block][tile_outputs].
template <const MxElement& E>
HWY_NOINLINE void encode_with(const float* values, IntV exponent, Codes& codes) {
  const V unit = unit_of(exponent);
  V errors[mx_block];
  for (int i = 0; i < mx_block; ++i) {
    const V x = hn::Mul(hn::LoadU(D(), values + i * tile_outputs), unit);
    Element element;
    if constexpr (E.integer())
      element = encode_integer(x);
    else
      element = encode_float<E>(x);
    hn::Store(element.code, Ints(), codes.code[i]);
    errors[i] = hn::Mul(element.error, element.error);
  }
  for (int width = mx_block / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      errors[i] = hn::Add(errors[i], errors[i + width]);
  codes.squared_error = errors[0];
}

/// Return the parts of codes that SixBits defines: the four lower bits, and the other two.
template <const MxElement& E>
HWY_INLINE IntV four_bits(IntV code) {
  if constexpr (&E == &e3m2)
    return hn::And(hn::ShiftRight<1>(code), ints(15));
  return hn::Or(
      hn::And(hn::ShiftRight<1>(code), ints(12)),
      hn::Or(hn::And(hn::ShiftRight<4>(code), ints(2)), hn::And(hn::ShiftRight<2>(code), ints(1))));
}
template <const MxElement& E>
HWY_INLINE IntV two_bits(IntV code) {
  if constexpr (&E == &e3m2)
    return hn::Or(hn::And(hn::ShiftRight<4>(code), ints(2)), hn::And(code, ints(1)));
  const IntV odd = hn::Xor(code, hn::Xor(hn::ShiftRight<5>(code), hn::ShiftRight<2>(code)));
  return hn::Or(hn::And(code, ints(2)), hn::And(odd, ints(1)));
}

/// Returns four inputs' parts of a word, one byte each.
template <class F>
HWY_INLINE IntV four_bytes(const Codes& codes, int first, const F& part) {
  const auto at = [&](int i) INLINED { return part(hn::Load(Ints(), codes.code[first + i])); };
  return hn::Or(hn::Or(at(0), hn::ShiftLeft<8>(at(1))),
                hn::Or(hn::ShiftLeft<16>(at(2)), hn::ShiftLeft<24>(at(3))));
}

/// Writes words as pack_words does. words: `lanes` columns of [bits][tile_outputs].
template <const MxElement& E>
HWY_INLINE void store_words(const Codes& codes, std::uint32_t* words) {
  const auto put = [&](IntV word) INLINED {
    hn::StoreU(hn::BitCast(hn::RebindToUnsigned<D>(), word), hn::RebindToUnsigned<D>(), words);
    words += tile_outputs;
  };
  const auto all = [](IntV code) INLINED { return code; };
  const auto low = [](IntV code) INLINED { return E.bits() == 4 ? code : four_bits<E>(code); };
  const auto last = [](IntV code) INLINED { return two_bits<E>(code); };
  if constexpr (E.bits() == 8) {
    for (int i = 0; i < mx_block; i += 4)
      put(four_bytes(codes, i, all));
    return;
  }
  for (int i = 0; i < mx_block; i += 8) {
    put(hn::Or(four_bytes(codes, i, low), hn::ShiftLeft<4>(four_bytes(codes, i + 4, low))));
    if (E.bits() == 6 && i % 16 == 8) {
      const IntV front =
          hn::Or(four_bytes(codes, i - 8, last), hn::ShiftLeft<2>(four_bytes(codes, i - 4, last)));
      const IntV back =
          hn::Or(four_bytes(codes, i, last), hn::ShiftLeft<2>(four_bytes(codes, i + 4, last)));
      put(hn::Or(front, hn::ShiftLeft<4>(back)));
    }
  }
}

/// Returns a mask of blocks whose elements are all zero, whose scales therefore mean nothing.
template <const MxElement& E>
HWY_INLINE auto zero_blocks(const Codes& codes) {
  IntV any = hn::Zero(Ints());
  for (const auto& code : codes.code)
    any = hn::Or(any, hn::Load(Ints(), code));
  if constexpr (!E.integer())
    any = hn::And(any, ints(E.sign_bit() - 1));
  return hn::Eq(any, hn::Zero(Ints()));
}

/// Encodes with the chosen scales, and returns their exponents.
template <const MxElement& E>
HWY_INLINE IntV choose_scales(ScaleChoice choice, const float* values, IntV largest, Codes& codes) {
  const IntV floor = hn::Max(
      hn::Sub(hn::ShiftRight<f32_mantissa_bits>(largest), ints(exponent_bias + E.largest_exponent)),
      ints(-exponent_bias));
  const V top = hn::Mul(as_float(largest), unit_of(floor));
  const IntV too_large = bits_of(hn::VecFromMask(D(), hn::Gt(top, hn::Set(D(), E.largest()))));
  const IntV room = hn::VecFromMask(Ints(), hn::Lt(floor, ints(exponent_bias)));
  const IntV cut = hn::And(too_large, room); // -1 where the floor's scale cuts something off.
  if (choice == ScaleChoice::ceil) {
    encode_with<E>(values, hn::Sub(floor, cut), codes);
    return hn::Sub(floor, cut);
  }
  encode_with<E>(values, floor, codes);
  if (choice == ScaleChoice::floor || hn::AllTrue(Ints(), hn::Eq(cut, ints(0))))
    return floor;
  Codes above;
  encode_with<E>(values, hn::Sub(floor, cut), above);
  // The error above is in units that are four times as large.
  const V error = hn::Mul(above.squared_error, hn::Set(D(), 4.0f));
  const IntV better =
      hn::And(cut, bits_of(hn::VecFromMask(D(), hn::Lt(error, codes.squared_error))));
  for (int i = 0; i < mx_block; ++i) {
    const IntV code = hn::Load(Ints(), codes.code[i]);
    const IntV other = hn::Load(Ints(), above.code[i]);
    hn::Store(hn::Or(hn::And(better, other), hn::AndNot(better, code)), Ints(), codes.code[i]);
  }
  return hn::Sub(floor, better);
}

/// Encodes one block of `lanes` outputs.
template <const MxElement& E>
HWY_INLINE void encode_lanes(ScaleChoice choice, const float* values, std::uint8_t* scales,
                             std::uint32_t* words) {
  IntV largest = hn::Zero(Ints());
  for (int i = 0; i < mx_block; ++i)
    largest = hn::Max(largest, magnitude_of(hn::LoadU(D(), values + i * tile_outputs)));
  Codes codes;
  const IntV exponent = choose_scales<E>(choice, values, largest, codes);
  const auto zero = zero_blocks<E>(codes);
  IntV scale = hn::Add(exponent, ints(exponent_bias));
  scale = hn::IfThenElse(zero, ints(exponent_bias), scale);
  const auto no_number = hn::Gt(largest, ints(0x7F7FFFFF));
  if (!hn::AllFalse(Ints(), no_number)) {
    scale = hn::IfThenElse(no_number, ints(mx_nan_scale), scale);
    for (auto& code : codes.code)
      hn::Store(hn::IfThenZeroElse(no_number, hn::Load(Ints(), code)), Ints(), code);
  }
  const hn::Rebind<std::uint8_t, Ints> bytes;
  hn::StoreU(hn::DemoteTo(bytes, scale), bytes, scales);
  store_words<E>(codes, words);
}

/// Widens a block, two rows of a tile's numbers at a time.
template <class Read>
HWY_INLINE void widen_block(const std::byte* numbers, float* values) {
  constexpr std::size_t step = 2 * tile_outputs * Read::bytes;
  for (int i = 0; i < mx_block; i += 2, numbers += step, values += 2 * tile_outputs) {
    store(Read::even(numbers, tile_outputs), values);
    store(Read::odd(numbers, tile_outputs), values + tile_outputs);
  }
}
void widen_block(DType dtype, const std::byte* numbers, float* values) {
  switch (dtype) {
  case DType::f32: return widen_block<ReadF32>(numbers, values);
  case DType::f16: return widen_block<ReadF16>(numbers, values);
  case DType::bf16: widen_block<ReadBf16>(numbers, values);
  }
}

template <const MxElement& E>
void encode(const Numbers& numbers, ScaleChoice choice, std::uint8_t* scales,
            std::uint32_t* words) {
  alignas(64) float values[mx_block * tile_outputs];
  for (int block = 0; block < numbers.blocks; ++block) {
    const std::size_t block_bytes = sizeof(values) / sizeof(float) * size_of(numbers.dtype);
    widen_block(numbers.dtype, numbers.data + std::size_t(block) * block_bytes, values);
    for (int o = 0; o < tile_outputs; o += lanes)
      encode_lanes<E>(choice, values + o, scales + o, words + o);
    scales += tile_outputs;
    words += E.bits() * tile_outputs;
  }
}

} // namespace

void encode_blocks(const Numbers& numbers, const Quantization& to, std::uint8_t* scales,
                   std::uint32_t* words) {
  switch (to.format) {
  case WeightFormat::mxfp8: return encode<e4m3>(numbers, to.scales, scales, words);
  case WeightFormat::mxfp8_e5m2: return encode<e5m2>(numbers, to.scales, scales, words);
  case WeightFormat::mxfp6: return encode<e2m3>(numbers, to.scales, scales, words);
  case WeightFormat::mxfp6_e3m2: return encode<e3m2>(numbers, to.scales, scales, words);
  case WeightFormat::mxfp4: return encode<e2m1>(numbers, to.scales, scales, words);
  default: return encode<int8>(numbers, to.scales, scales, words);
  }
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
