// Decoders of scaled codes to pairs of bf16 integers: by one table of 16-bit numbers for codes of
// six bits or fewer, by two tables of their bytes for codes of eight.
#pragma once

#include "base/bf16.hpp"
#include "gpu/cpu/avx512_words.hpp"

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

inline std::uint16_t bf16_bits(int number) {
  return base::to_bf16(float(number)).bits;
}

/// The bf16 number of each code of up to six bits; higher bits of an index do not matter.
struct CodeTable {
  alignas(64) std::uint16_t numbers[64];
  explicit CodeTable(const ScaledCodes& how) {
    for (int i = 0; i < 64; ++i)
      numbers[i] = bf16_bits(how.number(std::uint8_t(i % (1 << how.bits))));
  }
};

/// The two bytes of the bf16 number of each integer from 0 to 127.
struct ByteTables {
  alignas(64) std::uint8_t low[128];
  alignas(64) std::uint8_t high[128];
  ByteTables() {
    for (int size = 0; size < 128; ++size) {
      low[size] = std::uint8_t(bf16_bits(size));
      high[size] = std::uint8_t(bf16_bits(size) >> 8);
    }
  }
};

/// Stands for the bits of a code where a tile holds decoded bf16 numbers.
inline constexpr int decoded = 16;

} // namespace paceline::gpu::cpu

// The headers of GCC 12 make undefined vectors, of which GCC then warns (PR 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
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

template <>
class Decoder<8> {
public:
  static constexpr int words = 1;
  static constexpr int pairs = 2;
  struct Run {
    __m512i pair[2];
  };

  explicit Decoder(const CodeTable& /*codes*/) {
    static const ByteTables tables;
    repeat<2>([&](auto i) INLINED {
      low_[i] = _mm512_load_si512(tables.low + 64 * i);
      high_[i] = _mm512_load_si512(tables.high + 64 * i);
    });
  }
  /// The size of -128 has eight bits: tables give 0 for it, which is right for the low byte.
  ALWAYS_INLINE Run run(const std::byte* at) const {
    const __m512i codes =
        in_order(at, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m512i index = _mm512_abs_epi8(codes);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], index, low_[1]);
    const __m512i sign = _mm512_set1_epi8(char(0x80));
    __m512i high = _mm512_permutex2var_epi8(high_[0], index, high_[1]);
    high = _mm512_mask_mov_epi8(high, _mm512_cmpeq_epi8_mask(codes, sign), _mm512_set1_epi8(0x43));
    constexpr int with_sign = 0xF8; // Code for vpternlog: first | (second & third).
    high = _mm512_ternarylogic_epi32(high, codes, sign, with_sign);
    return {{_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)}};
  }
  template <int pair>
  ALWAYS_INLINE __m512i numbers(const Run& run) const {
    return run.pair[pair];
  }

private:
  __m512i low_[2], high_[2];
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
#pragma GCC diagnostic pop

#endif
