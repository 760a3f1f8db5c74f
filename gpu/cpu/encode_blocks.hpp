// Vectorised encoding of numbers to blocks of microscaling formats (highway_quantize.cpp).
#pragma once

#include "gpu/mx.hpp"
#include "gpu/tensor.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cpu {

/// Numbers of 16 outputs in the order of a weight's tile, to be encoded.
struct Numbers {
  DType dtype = DType::f32;
  const std::byte* data = nullptr;
  int blocks = 0; ///< Blocks of mx_block inputs.
};

/// Encodes each block as encode_block does, and writes the tile of a microscaling weight. scales:
/// [blocks][16]; words: in the order of pack_words, [word of all blocks][16].
using EncodeBlocks = void(const Numbers& numbers, const Quantization& to, std::uint8_t* scales,
                          std::uint32_t* words);

/// Returns null if the portable family has no vectors for it.
EncodeBlocks* highway_encode_blocks();

} // namespace paceline::gpu::cpu
