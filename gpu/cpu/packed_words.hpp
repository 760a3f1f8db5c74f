// The order of codes in packed weights: words of 32 bits, which a vector of outputs holds side by
// side.
#pragma once

#include "gpu/mx.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace paceline::gpu::cpu {

/// Calls `call` with the number of a code's bits as a constant.
template <class F>
void with_bits(int bits, const F& call) {
  switch (bits) {
  case 4: return call(std::integral_constant<int, 4>());
  case 5: return call(std::integral_constant<int, 5>());
  case 6: return call(std::integral_constant<int, 6>());
  default: return call(std::integral_constant<int, 8>());
  }
}

/// Write and read an output's 32 codes in words of 32 bits, one word for each of a code's bits;
/// byte j of a word belongs to inputs 4 i + j. 8 bits: a word has four inputs. 4 bits: it has
/// eight, the first four in the bytes' lower halves. 6 bits: three words have sixteen; two have the
/// lower four bits as with 4 bits, the third has the other two, from each byte's lowest bits on. 5
/// bits: all 32 are in five words in the same way.
template <int bits>
void pack_words(const std::uint8_t* codes, std::uint32_t* words) {
  if constexpr (bits == 8) {
    std::memcpy(words, codes, mx_block);
    return;
  }
  using Four [[gnu::vector_size(16)]] = std::uint32_t; // Four inputs in each lane.
  Four front, back;
  std::memcpy(&front, codes, sizeof front);
  std::memcpy(&back, codes + sizeof front, sizeof back);
  const Four even = __builtin_shufflevector(front, back, 0, 2, 4, 6);
  const Four odd = __builtin_shufflevector(front, back, 1, 3, 5, 7);
  const Four low = (even & 0x0F0F0F0F) | (odd & 0x0F0F0F0F) << 4;
  constexpr int above = bits - 4; // Bits of a code that are in another word.
  constexpr std::uint32_t above_bits = above == 1 ? 0x01010101 : 0x03030303;
  const Four high = (even >> 4 & above_bits) | (odd >> 4 & above_bits) << above;
  if constexpr (bits == 6) {
    const std::uint32_t six[] = {low[0], low[1], high[0] | high[1] << 4,
                                 low[2], low[3], high[2] | high[3] << 4};
    std::memcpy(words, six, sizeof six);
    return;
  }
  std::memcpy(words, &low, sizeof low);
  if constexpr (bits == 5)
    words[4] = high[0] | high[1] << 2 | high[2] << 4 | high[3] << 6;
}
void unpack_words(int bits, const std::uint32_t* words, std::uint8_t* codes);
/// Do the same for microscaling formats; codes of 6 bits are in the order of SixBits.
void pack_words(WeightFormat format, const std::uint8_t* codes, std::uint32_t* words);
void unpack_words(WeightFormat format, const std::uint32_t* words, std::uint8_t* codes);

/// The order of 6-bit codes, which kernels look up in two tables of 16 bytes: one by four bits of a
/// code (the lower ones), one by the two others (highway_mx.cpp). The results are added.
struct SixBits {
  std::array<std::uint8_t, 64> of_code;
  std::array<std::uint8_t, 64> to_code;
};
const SixBits& six_bits(WeightFormat format);

} // namespace paceline::gpu::cpu
