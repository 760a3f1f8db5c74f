// The order of codes in packed weights: words of 32 bits, which a vector of outputs holds side by
// side.
#pragma once

#include "gpu/mx.hpp"

#include <array>
#include <cstdint>

namespace paceline::gpu::cpu {

/// Write and read an output's 32 codes in words of 32 bits, one word for each of a code's bits;
/// byte j of a word belongs to inputs 4 i + j. 8 bits: a word has four inputs. 4 bits: it has
/// eight, the first four in the bytes' lower halves. 6 bits: three words have sixteen; two have the
/// lower four bits as with 4 bits, the third has the other two, from each byte's lowest bits on. 5
/// bits: all 32 are in five words in the same way.
void pack_words(int bits, const std::uint8_t* codes, std::uint32_t* words);
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
