#include "gpu/cpu/packed_words.hpp"

#include <algorithm>
#include <cstring>

namespace paceline::gpu::cpu {
namespace {

constexpr std::uint32_t low_bits = 0x0F0F0F0Fu;
constexpr std::uint32_t pair_bits = 0x03030303u;
constexpr std::uint32_t single_bits = 0x01010101u;

/// Splits a code. The lower four bits are the exponent, the sign and the mantissa's highest bit.
/// The other two are the mantissa's lower bits, inverted in negative numbers (so that these, too,
/// are the sum of two tables), xor the sign and the highest bit.
constexpr int split_e2m3(int code) {
  const int sign = code >> 5;
  const int low = (code >> 1 & 12) | sign << 1 | (code >> 2 & 1);
  return low | ((code & 3) ^ (sign ? 3 : 0) ^ (low & 3)) << 4;
}
/// Splits a code. The lower four bits are all but the sign and the mantissa's lowest bit, which are
/// the other two.
constexpr int split_e3m2(int code) {
  return (code >> 1 & 15) | ((code >> 4 & 2) | (code & 1)) << 4;
}
constexpr SixBits six_bits_by(int (*split)(int)) {
  SixBits both{};
  for (int code = 0; code < 64; ++code) {
    both.of_code[std::size_t(code)] = std::uint8_t(split(code));
    both.to_code[std::size_t(split(code))] = std::uint8_t(code);
  }
  return both;
}

} // namespace

const SixBits& six_bits(WeightFormat format) {
  static constexpr SixBits e2m3_bits = six_bits_by(split_e2m3);
  static constexpr SixBits e3m2_bits = six_bits_by(split_e3m2);
  return format == WeightFormat::mxfp6 ? e2m3_bits : e3m2_bits;
}

void unpack_words(int bits, const std::uint32_t* words, std::uint8_t* codes) {
  if (bits == 8) {
    std::memcpy(codes, words, mx_block);
    return;
  }
  const int run = bits == 4 ? 8 : bits == 6 ? 16 : 32;
  const int above = bits - 4;
  const std::uint32_t above_bits = above == 1 ? single_bits : pair_bits;
  for (int first = 0; first < mx_block; first += run) {
    for (int four = 0; four < run / 4; ++four) {
      std::uint32_t all = words[four / 2] >> four % 2 * 4 & low_bits;
      if (above > 0)
        all |= (words[run / 8] >> above * four & above_bits) << 4;
      std::memcpy(codes + first + 4 * four, &all, sizeof(all));
    }
    words += run / 8 + (above > 0);
  }
}

void pack_words(WeightFormat format, const std::uint8_t* codes, std::uint32_t* words) {
  if (element_bits(format) != 6)
    return with_bits(element_bits(format), [&](auto bits) { pack_words<bits>(codes, words); });
  std::uint8_t split[mx_block];
  std::transform(codes, codes + mx_block, split,
                 [&](std::uint8_t code) { return six_bits(format).of_code[code]; });
  pack_words<6>(split, words);
}

void unpack_words(WeightFormat format, const std::uint32_t* words, std::uint8_t* codes) {
  unpack_words(element_bits(format), words, codes);
  if (element_bits(format) == 6)
    std::transform(codes, codes + mx_block, codes,
                   [&](std::uint8_t split) { return six_bits(format).to_code[split]; });
}

} // namespace paceline::gpu::cpu
