// Random weights that are blocks of GGUF files.
#pragma once

#include "gpu/gguf_blocks.hpp"
#include "tests/gpu/rig.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace paceline::gpu::testing {

/// Any block, but for its halves, which are of moderate size.
inline std::vector<std::byte> some_block(GgufFormat format, Random& random) {
  std::vector<std::byte> out(block_bytes(format));
  for (std::byte& byte : out)
    byte = std::byte(random.bits());
  const auto put_half = [&](std::size_t at) {
    const auto half = std::uint16_t((random.bits() & 0x83FF) | (6 + random.bits() % 3) << 10);
    std::memcpy(out.data() + at, &half, sizeof(half));
  };
  using enum GgufFormat;
  switch (format) {
  case mxfp4: out[0] = std::byte(120 + random.bits() % 4); break;
  case q2_k: put_half(80), put_half(82); break;
  case q3_k: put_half(108); break;
  case q6_k: put_half(208); break;
  case q4_1:
  case q5_1:
  case q4_k:
  case q5_k: put_half(2); [[fallthrough]];
  default: put_half(0);
  }
  return out;
}

/// Random blocks, and the numbers that they mean.
struct BlockWeight {
  BlockWeight(GgufFormat format, int rows, int cols, Random& random)
      : matrix{DType::f32, nullptr, rows, cols}, f32(rows, cols) {
    const int each = block_elements(format);
    for (std::size_t at = 0; at < f32.values.size(); at += std::size_t(each)) {
      const std::vector<std::byte> block = some_block(format, random);
      decode_block(format, block.data(), f32.values.data() + at);
      bytes.insert(bytes.end(), block.begin(), block.end());
    }
    matrix.data = bytes.data();
    matrix.blocks = format;
  }
  BlockWeight(const BlockWeight&) = delete;

  HostMatrix matrix;
  Matrix f32;
  std::vector<std::byte> bytes;
};

/// Returns the blocks that are multiplied as this format.
inline GgufFormat gguf_format_of(WeightFormat format) {
  return *std::ranges::find_if(gguf_formats,
                               [format](GgufFormat one) { return weight_format(one) == format; });
}

} // namespace paceline::gpu::testing
