// Positions of elements in packed weights and staged rows (described in kernels.hpp, explained in
// ptx.cuh), and how attention divides its queries.
#pragma once

#include "base/bf16.hpp"
#include "base/host_device.hpp"
#include "gpu/cuda/kernels.hpp"

namespace paceline::gpu::cuda::kernels {

inline constexpr int warp_lanes = 32;

/// Returns the elements from a tile's start to (output of the tile, input). Not for microscaling
/// weights.
PACELINE_HOST_DEVICE inline std::size_t weight_element(const PackedLayout& layout, int output,
                                                       int input) {
  if (layout.format != WeightFormat::bf16)
    return std::size_t(output) * std::size_t(layout.padded_inputs()) + std::size_t(input);
  const int within = input % step_inputs;
  const int lane = output % 8 * 4 + within % 8 / 2;
  const int element = within / 8 * 4 + output / 8 * 2 + within % 2;
  return (std::size_t(input / step_inputs) * warp_lanes + std::size_t(lane)) * 8 +
         std::size_t(element);
}

PACELINE_HOST_DEVICE inline int staged_steps(int cols) {
  return (cols + step_inputs - 1) / step_inputs;
}

/// Returns the elements from the start of staged rows to (row, column).
PACELINE_HOST_DEVICE inline std::size_t staged_element(int cols, int row, int column) {
  const int within = column % step_inputs;
  const int lane = row % tile_rows * 4 + within % 8 / 2;
  const int element = within / 8 * 2 + within % 2;
  const std::size_t step = std::size_t(row / tile_rows) * std::size_t(staged_steps(cols)) +
                           std::size_t(column / step_inputs);
  return (step * warp_lanes + std::size_t(lane)) * 4 + std::size_t(element);
}

/// Rounds a number of a row of so many columns to where it is staged, if it is.
PACELINE_HOST_DEVICE inline void stage_number(StagedRows staged, int cols, int row, int column,
                                              float value) {
  if (staged.data)
    staged.data[staged_element(cols, row, column)] = base::to_bf16(value).bits;
}

/// Number of queries of a block of attention.
inline constexpr int queries_max = 16;

/// How the heads of a group are divided if they are more than a block takes.
struct HeadGroups {
  int group;  ///< Query heads of a kv head.
  int heads;  ///< Query heads in a block.
  int blocks; ///< Blocks for all query heads.
  int rows;   ///< Rows of a tile.

  bool operator==(const HeadGroups&) const = default;
};
PACELINE_HOST_DEVICE inline HeadGroups head_groups(int heads, int kv_heads) {
  const int group = heads / kv_heads;
  const int taken = group < queries_max ? group : queries_max;
  return {group, taken, (group + taken - 1) / taken, queries_max / taken};
}

} // namespace paceline::gpu::cuda::kernels
