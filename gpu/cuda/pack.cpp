// The host's part of the kernels: weights in the kernels' order, and rows cut into tiles.
#include "gpu/cuda/layout.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace paceline::gpu::cuda::kernels {
namespace {

// One output's inputs into its tile. Bits: an element's.
template <class Bits>
void scatter(const PackedLayout& layout, int output, const std::byte* row, std::byte* tile) {
  auto* const to = reinterpret_cast<Bits*>(tile);
  for (int i = 0; i < layout.inputs; ++i)
    std::memcpy(to + weight_element(layout, output, i), row + std::size_t(i) * sizeof(Bits),
                sizeof(Bits));
}

} // namespace

void pack(const PackedLayout& layout, std::span<const HostMatrix> parts, int first_tile,
          int last_tile, std::byte* image) {
  std::memset(image, 0, std::size_t(last_tile - first_tile) * layout.tile_bytes());
  const std::size_t row_bytes = std::size_t(layout.inputs) * size_of(layout.dtype);
  const int begin = first_tile * tile_outputs;
  const int end = std::min(last_tile * tile_outputs, layout.outputs);
  int before = 0; // Outputs of the parts already passed.
  for (const HostMatrix& part : parts) {
    assert(part.cols == layout.inputs && part.dtype == layout.dtype);
    for (int o = std::max(begin, before); o < std::min(end, before + part.rows); ++o) {
      const auto* row =
          static_cast<const std::byte*>(part.data) + std::size_t(o - before) * row_bytes;
      std::byte* tile = image + std::size_t(o / tile_outputs - first_tile) * layout.tile_bytes();
      if (layout.dtype == DType::f32)
        scatter<std::uint32_t>(layout, o % tile_outputs, row, tile);
      else
        scatter<std::uint16_t>(layout, o % tile_outputs, row, tile);
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
