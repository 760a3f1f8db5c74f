// Common parts of portable kernels for weights whose codes are in words of 32 bits, one per output.
#if defined(PACELINE_HIGHWAY_WORDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_HIGHWAY_WORDS_INL_HPP
#undef PACELINE_HIGHWAY_WORDS_INL_HPP
#else
#define PACELINE_HIGHWAY_WORDS_INL_HPP
#endif

#include "gpu/cpu/highway-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using Words = hn::RebindToUnsigned<D>;
using Bytes = hn::Repartition<std::uint8_t, D>;

/// One word for each of 16 outputs.
struct W16 {
  hn::Vec<Words> part[parts];
};

template <class F>
HWY_INLINE W16 each_word(const F& f) {
  W16 result;
  repeat<parts>([&](auto i) INLINED { result.part[i] = f(i); });
  return result;
}
HWY_INLINE W16 load_words(const std::uint32_t* from) {
  return each_word([&](int i) INLINED { return hn::LoadU(Words(), from + i * lanes); });
}
/// Shifts bytes down by `at` and returns their bits that are in `mask`.
template <int at>
HWY_INLINE hn::Vec<Words> bits_of_bytes(hn::Vec<Words> word, std::uint8_t mask) {
  if constexpr (at > 0)
    word = hn::ShiftRight<at>(word);
  return hn::And(word, hn::BitCast(Words(), hn::Set(Bytes(), mask)));
}

struct Table {
  alignas(16) std::uint8_t bytes[16];
};
HWY_INLINE hn::Vec<Words> look_up(const Table& table, hn::Vec<Words> index) {
  const auto all = hn::LoadDup128(Bytes(), table.bytes);
  return hn::BitCast(Words(), hn::TableLookupBytes(all, hn::BitCast(Bytes(), index)));
}

/// Returns the table that moves byte `j` of each word to its highest byte, and clears the others.
template <int j>
constexpr Table only_byte() {
  Table t{};
  for (int i = 0; i < 16; ++i)
    t.bytes[i] = std::uint8_t(i % 4 == 3 ? i / 4 * 4 + j : 0x80); // A high bit makes it zero.
  return t;
}
template <int j>
constexpr Table place_of_byte = only_byte<j>();
template <int j>
HWY_INLINE hn::Vec<Words> highest_byte(hn::Vec<Words> word) {
  if constexpr (j == 0)
    return hn::ShiftLeft<24>(word);
  if constexpr (j == 3)
    return hn::And(word, hn::Set(Words(), 0xFF000000u));
  const auto place = hn::LoadDup128(Bytes(), place_of_byte<j>.bytes);
  return hn::BitCast(Words(), hn::TableLookupBytesOr0(hn::BitCast(Bytes(), word), place));
}

/// Tables that turn 6 bits into bytes: `first` is looked up by the four bits that are stored
/// together (SixBits). `second` is looked up by `index` of these, xor the other two bits; both
/// results are added.
struct SixBitTables {
  Table first, index, second;
};
/// Returns the tables of E2M3's integers, in eighths. The second has the exponent and the
/// mantissa's lower bits.
constexpr SixBitTables tables_of_e2m3() {
  SixBitTables t{};
  for (int i = 0; i < 16; ++i) {
    const int exponent = i >> 2;
    const int step = exponent == 0 ? 1 : 1 << (exponent - 1);
    const int value = ((exponent == 0 ? 0 : 8) + (i & 1) * 4) * step;
    t.first.bytes[i] = std::uint8_t(i & 2 ? -value - 3 * step : value);
    t.index.bytes[i] = std::uint8_t(i);
    t.second.bytes[i] = std::uint8_t((i & 3) * step);
  }
  return t;
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
