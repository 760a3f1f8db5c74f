// Numbers to blocks of microscaling formats, in vectors (highway_quantize.cpp).
#pragma once

#include "gpu/mx.hpp"
#include "gpu/tensor.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cpu {

/// Numbers of 16 outputs as a weight's tile has them, which are no blocks yet.
struct Numbers {
  DType dtype = DType::f32;
  const std::byte* data = nullptr;
  int blocks = 0; ///< Of mx_block inputs.
};

/// What encode_block makes of each block, as the tile of a microscaling weight. scales: [blocks]
/// [16]; words: as pack_words has them, [word of all blocks][16].
using EncodeBlocks = void(const Numbers& numbers, const Quantization& to, std::uint8_t* scales,
                          std::uint32_t* words);

/// Null where the portable family has no vectors to do it with.
EncodeBlocks* highway_encode_blocks();

} // namespace paceline::gpu::cpu
