// Blocks of GGUF files decode to what their makers' own implementation makes of them.
#include "gpu/gguf_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace paceline;
using gpu::GgufFormat;

namespace {

/// Any bytes, but no half of which is infinite or no number.
std::vector<std::byte> some_blocks(GgufFormat format, int count) {
  std::vector<std::byte> out(std::size_t(count) * gpu::block_bytes(format));
  auto state = std::uint64_t(format);
  for (std::byte& byte : out) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = std::byte(state >> 56);
    if ((byte & std::byte(0x7C)) == std::byte(0x7C))
      byte &= ~std::byte(4);
  }
  return out;
}

std::vector<float> decoded(GgufFormat format, const std::vector<std::byte>& blocks) {
  const std::size_t bytes = gpu::block_bytes(format);
  const auto elements = std::size_t(gpu::block_elements(format));
  std::vector<float> out(blocks.size() / bytes * elements);
  for (std::size_t i = 0; i * bytes < blocks.size(); ++i)
    gpu::decode_block(format, blocks.data() + i * bytes, out.data() + i * elements);
  return out;
}

/// FNV-1a of the bits.
std::uint64_t digest(const std::vector<float>& values) {
  std::uint64_t out = 0xcbf29ce484222325;
  for (const float value : values)
    out = (out ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  return out;
}

} // namespace

TEST_CASE("every format's blocks are the numbers that PyPI's gguf 0.19 reads, bit for bit") {
  struct Expected {
    GgufFormat format;
    std::uint64_t digest; ///< Of gguf.dequantize(some_blocks).
  };
  constexpr Expected all[] = {
      {GgufFormat::q4_0, 0xa0b061b2e5e5f425},   {GgufFormat::q4_1, 0xcf95bac9ce20f051},
      {GgufFormat::q5_0, 0x30902798b1dec825},   {GgufFormat::q5_1, 0x406179ba3b4622db},
      {GgufFormat::q8_0, 0x23245208e8489365},   {GgufFormat::q2_k, 0xd74ac3a0f4a7dc3d},
      {GgufFormat::q3_k, 0xa4bf7d42998e59e5},   {GgufFormat::q4_k, 0x2ab592e37a8b7a77},
      {GgufFormat::q5_k, 0x3def10096ee3f39a},   {GgufFormat::q6_k, 0x5d7a1a6e928efe2f},
      {GgufFormat::iq4_nl, 0x135f30f83a46a4a5}, {GgufFormat::iq4_xs, 0x2078f037ca056ed9},
      {GgufFormat::mxfp4, 0xbcd3ae79275e8025},  {GgufFormat::nvfp4, 0xb78ed45ee5a3dd25},
  };
  CHECK(std::size(all) == gpu::gguf_formats.size());
  for (const Expected& expected : all) {
    CAPTURE(gpu::to_string(expected.format));
    const std::vector<float> values = decoded(expected.format, some_blocks(expected.format, 50));
    CHECK(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
    CHECK(digest(values) == expected.digest);
  }
}

TEST_CASE("a format is known by the number that files have for it, and no other number is one") {
  for (const GgufFormat format : gpu::gguf_formats)
    CHECK(gpu::gguf_format(std::uint32_t(format)) == format);
  for (const std::uint32_t other : {0u, 1u, 4u, 9u, 16u, 19u, 29u, 34u, 41u, 1u << 31})
    CHECK_FALSE(gpu::gguf_format(other));
}
