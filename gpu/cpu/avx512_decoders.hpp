// Decoders of codes to pairs of bf16 numbers: by one table of 16-bit numbers for codes of six bits
// or fewer, by two tables of their bytes for codes of eight.
#pragma once

#include "base/bf16.hpp"
#include "gpu/cpu/avx512_words.hpp"

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

/// The bf16 number of each code of up to six bits; higher bits of an index do not matter.
struct CodeTable {
  alignas(64) std::uint16_t numbers[64];
  /// number: of a code.
  template <class Number>
  CodeTable(int bits, const Number& number) {
    for (int i = 0; i < 64; ++i)
      numbers[i] = base::to_bf16(float(number(std::uint8_t(i % (1 << bits))))).bits;
  }
};

/// The two bytes of the bf16 number of each code of eight bits without its sign.
struct ByteTables {
  alignas(64) std::uint8_t low[128];
  alignas(64) std::uint8_t high[128];
  /// number: of a code.
  template <class Number>
  explicit ByteTables(const Number& number) {
    for (int code = 0; code < 128; ++code) {
      const std::uint16_t bits = base::to_bf16(float(number(std::uint8_t(code)))).bits;
      low[code] = std::uint8_t(bits);
      high[code] = std::uint8_t(bits >> 8);
    }
  }
};

} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {

/// A decoder of a run of words to pairs of numbers. After a run the order of codes repeats itself
/// (see pack_words).
template <int bits>
class Decoder;

template <>
class Decoder<4> {
public:
  static constexpr int words = 1;
  static constexpr int pairs = 4;
  using Run = __m512i;

  explicit Decoder(const CodeTable& codes) : table_(_mm512_load_si512(codes.numbers)) {}
  ALWAYS_INLINE Run run(const std::byte* at) const { return split_in_pairs(at); }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    return _mm512_permutexvar_epi16(shifted_right<pair % 2 * 8 + pair / 2 * 4>(run), table_);
  }

private:
  __m512i table_;
};

constexpr int either = 0xCA; // Code for vpternlog: the first operand's bits choose.

template <>
class Decoder<5> {
public:
  static constexpr int words = 5;
  static constexpr int pairs = 16;
  struct Run {
    __m512i four_bits[4];
    __m512i one_bit;
  };

  explicit Decoder(const CodeTable& codes) : table_(_mm512_load_si512(codes.numbers)) {}
  ALWAYS_INLINE Run run(const std::byte* at) const {
    return {{split_in_pairs(at), split_in_pairs(at + line), split_in_pairs(at + 2 * line),
             split_in_pairs(at + 3 * line)},
            split_in_pairs(at + 4 * line)};
  }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    constexpr int four = pair / 2, half = pair % 2 * 8;
    const __m512i index = _mm512_ternarylogic_epi32(
        _mm512_set1_epi16(15), shifted_right<four % 2 * 4 + half>(run.four_bits[four / 2]),
        shifted_right<four + half - 4>(run.one_bit), either);
    return _mm512_permutexvar_epi16(index, table_);
  }

private:
  __m512i table_;
};

template <>
class Decoder<6> {
public:
  static constexpr int words = 3;
  static constexpr int pairs = 8;
  struct Run {
    __m512i four_bits[2];
    __m512i two_bits;
  };

  explicit Decoder(const CodeTable& codes)
      : low_(_mm512_load_si512(codes.numbers)), high_(_mm512_load_si512(codes.numbers + 32)) {}
  ALWAYS_INLINE Run run(const std::byte* at) const {
    return {{split_in_pairs(at), split_in_pairs(at + line)}, split_in_pairs(at + 2 * line)};
  }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    constexpr int four = pair / 2, half = pair % 2 * 8;
    const __m512i index = _mm512_ternarylogic_epi32(
        _mm512_set1_epi16(15), shifted_right<four % 2 * 4 + half>(run.four_bits[four / 2]),
        shifted_right<2 * four + half - 4>(run.two_bits), either);
    return _mm512_permutex2var_epi16(low_, index, high_);
  }

private:
  __m512i low_, high_;
};

/// What decoders of codes of eight bits have in common: the sign is a code's highest bit.
class ByteDecoder {
public:
  static constexpr int words = 1;
  static constexpr int pairs = 2;
  struct Run {
    __m512i pair[2];
  };

  explicit ByteDecoder(const ByteTables& tables) {
    repeat<2>([&](auto i) INLINED {
      low_[i] = _mm512_load_si512(tables.low + 64 * i);
      high_[i] = _mm512_load_si512(tables.high + 64 * i);
    });
  }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    return run.pair[pair];
  }

protected:
  ALWAYS_INLINE static __m512i codes_at(const std::byte* at) {
    return in_order(at, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  }
  /// index: of each code in the tables. has_least: -128 is a number. Its size has eight bits, and
  /// tables give 0 for it, which is right for the low byte.
  template <bool has_least>
  ALWAYS_INLINE Run look_up(__m512i codes, __m512i index) const {
    const __m512i low = _mm512_permutex2var_epi8(low_[0], index, low_[1]);
    const __m512i sign = _mm512_set1_epi8(char(0x80));
    __m512i high = _mm512_permutex2var_epi8(high_[0], index, high_[1]);
    if constexpr (has_least)
      high =
          _mm512_mask_mov_epi8(high, _mm512_cmpeq_epi8_mask(codes, sign), _mm512_set1_epi8(0x43));
    constexpr int with_sign = 0xF8; // Code for vpternlog: first | (second & third).
    high = _mm512_ternarylogic_epi32(high, codes, sign, with_sign);
    return {{_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)}};
  }

private:
  __m512i low_[2], high_[2];
};

template <>
class Decoder<8> : public ByteDecoder {
public:
  explicit Decoder(const CodeTable& /*codes*/) : ByteDecoder(integers()) {}
  ALWAYS_INLINE Run run(const std::byte* at) const {
    const __m512i codes = codes_at(at);
    return look_up<true>(codes, _mm512_abs_epi8(codes));
  }

private:
  static const ByteTables& integers() {
    static const ByteTables tables([](std::uint8_t code) { return int(code); });
    return tables;
  }
};

template <>
class Decoder<decoded> {
public:
  static constexpr int words = 8;
  static constexpr int pairs = 8;
  using Run = const std::byte*;

  explicit Decoder(const CodeTable& /*codes*/) {}
  ALWAYS_INLINE Run run(const std::byte* at) const { return at; }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    return _mm512_load_si512(run + pair * line);
  }
};

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
