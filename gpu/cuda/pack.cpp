// The host's part of the kernels: packing of weights, and the cutting of rows into tiles.
#include "gpu/cuda/layout.hpp"
#include "gpu/cuda/mx_layout.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace paceline::gpu::cuda::kernels {
namespace {

// Writes one output's inputs to its tile. Bits: an unsigned type of an element's size.
template <class Bits>
void scatter(const PackedLayout& layout, int output, const std::byte* row, std::byte* tile) {
  auto* const to = reinterpret_cast<Bits*>(tile);
  for (int i = 0; i < layout.inputs; ++i)
    std::memcpy(to + weight_element(layout, output, i), row + std::size_t(i) * sizeof(Bits),
                sizeof(Bits));
}

void scatter(const PackedLayout& layout, const HostMatrix& part, int row, int output,
             std::byte* tile) {
  const auto* from = static_cast<const std::byte*>(part.data) +
                     std::size_t(row) * std::size_t(layout.inputs) * size_of(part.dtype);
  if (part.dtype == DType::f32)
    scatter<std::uint32_t>(layout, output, from, tile);
  else
    scatter<std::uint16_t>(layout, output, from, tile);
}

// Writes one output's block to its tile, which is zero there.
void put_block(int bits, const MxBlock& block, int output, int index, std::byte* tile) {
  std::byte* const span = tile + std::size_t(index / span_blocks) * span_bytes(bits);
  const int within = index % span_blocks;
  span[scale_word(bits, output % 8) * 4 + scale_byte(output, within)] = std::byte(block.scale);
  if (block.scale == mx_nan_scale)
    return; // It acts as infinity, which makes codes of zero NaN.
  auto* const words = reinterpret_cast<std::uint32_t*>(span);
  for (int i = 0; i < mx_block; ++i) {
    const int lane = output % 8 * 4 + i % 8 / 2;
    const int pair = i / step_inputs * 4 + i % step_inputs / 8 * 2 + output / 8;
    each_part(bits, pair, block.codes[std::size_t(i)], [&](int word, unsigned part) {
      words[code_word(bits, lane, within * bits / 2 + word)] |= part << (16 * (i % 2));
    });
  }
}

void put_blocks(const HostMatrix& part, int row, int output, std::byte* tile) {
  const int bits = element_bits(part.format());
  for (int index = 0; index < blocks_of(part.cols); ++index)
    put_block(bits, block_of(part, row, index * mx_block), output, index, tile);
}

} // namespace

PackedLayout PackedLayout::of(WeightFormat format, int outputs, int inputs) {
  PackedLayout layout{format, outputs, inputs};
  const int bits = element_bits(format);
  layout.tile_bytes =
      is_mx(format) ? std::size_t((inputs + span_inputs - 1) / span_inputs) * span_bytes(bits)
                    : std::size_t(layout.padded_inputs() * tile_outputs) * std::size_t(bits / 8);
  return layout;
}

void pack(const PackedLayout& layout, std::span<const HostMatrix> parts, int first_tile,
          int last_tile, std::byte* image) {
  std::memset(image, 0, std::size_t(last_tile - first_tile) * layout.tile_bytes);
  const int begin = first_tile * tile_outputs;
  const int end = std::min(last_tile * tile_outputs, layout.outputs);
  int before = 0; // Outputs of the parts already passed.
  for (const HostMatrix& part : parts) {
    assert(part.cols == layout.inputs && part.format() == layout.format);
    for (int o = std::max(begin, before); o < std::min(end, before + part.rows); ++o) {
      std::byte* tile = image + std::size_t(o / tile_outputs - first_tile) * layout.tile_bytes;
      if (is_mx(layout.format))
        put_blocks(part, o - before, o % tile_outputs, tile);
      else
        scatter(layout, part, o - before, o % tile_outputs, tile);
    }
    before += part.rows;
  }
}

std::size_t staged_bytes(int rows, int cols) {
  const auto row_tiles = std::size_t((rows + tile_rows - 1) / tile_rows);
  return row_tiles * tile_rows * std::size_t(staged_steps(cols) * step_inputs) *
         sizeof(std::uint16_t);
}

std::vector<RowTile> tile_rows_of(std::span<const std::int32_t> sequence, int heads, int kv_heads) {
  const int most = head_groups(heads, kv_heads).rows;
  std::vector<RowTile> tiles;
  for (std::size_t r = 0; r < sequence.size(); ++r) {
    if (r > 0 && sequence[r] == sequence[r - 1] && tiles.back().count < most)
      ++tiles.back().count;
    else
      tiles.push_back({std::int32_t(r), 1});
  }
  return tiles;
}

} // namespace paceline::gpu::cuda::kernels
