// Launching products: the kernel and the shape of its blocks, by the product's shape.
#pragma once

#include "gpu/cuda/matrix_product.cuh"
#include "gpu/cuda/product.cuh"

#include <algorithm>
#include <cstddef>

namespace paceline::gpu::cuda::kernels {

/// The shape of blocks that share so many tiles of rows. Weights of bf16 are read by more warps, so
/// that rows are read by fewer; codes would be decoded by each of them.
template <class Weights>
constexpr MatrixShape matrix_shape(int row_tiles) {
  if (row_tiles == 8)
    return {row_tiles, 1};
  return {row_tiles, Weights::steps == 1 ? 4 : 2};
}

/// Returns the tiles of rows of such blocks that are the fastest ones for a product of so many rows
/// (measured on an H200); 0: none are.
template <class Weights>
int matrix_row_tiles(int rows, int tiles) {
  const auto blocks = [&](int row_tiles) {
    return divide_up(rows, row_tiles * tile_rows) * divide_up(tiles, MatrixShape::tiles);
  };
  if (rows > (has_factors<Weights> ? 128 : 64))
    return blocks(16) >= 48 ? 16 : 0;
  return !has_factors<Weights> && rows > 32 && blocks(8) >= 192 ? 8 : 0;
}

template <class Weights, int row_tiles>
cudaError_t launch_matrix(const Queue& queue, const ProductCall<AllRows>& call) {
  constexpr MatrixShape shape = matrix_shape<Weights>(row_tiles);
  const dim3 grid(unsigned(divide_up(call.rows_max, shape.rows())),
                  unsigned(divide_up(call.tiles, shape.tiles)));
  constexpr std::size_t bytes = shape.stages * sizeof(MatrixStage<Weights, shape>);
  static_assert(bytes <= shared_bytes_most);
  return launch(queue, grid, shape.threads, bytes,
                matrix_product<Weights, shape.row_tiles, shape.row_warps>, call.out,
                call.staged.data, call.w, call.add);
}

template <class Weights, BlockShape shape, class Rows>
cudaError_t launch_shape(const Queue& queue, const ProductCall<Rows>& call) {
  const dim3 grid(unsigned(divide_up(call.rows_max, shape.row_tiles * tile_rows)),
                  unsigned(divide_up(call.tiles, shape.tiles)), unsigned(call.parts));
  constexpr std::size_t of_warp = sizeof(WarpShared<Weights, shape>);
  int warps = std::min(call.w.layout.chains(), shape.warps_max());
  if (warps > 8 && std::size_t(warps) * of_warp > shared_bytes_here())
    warps = 8;
  return launch(queue, grid, warps * warp_lanes, std::size_t(warps) * of_warp,
                product<Weights, shape.tiles, shape.row_tiles, shape.deep, Rows>, call.out,
                call.staged.data, call.w, call.add, call.rows);
}

/// Returns the tiles of outputs of a block with many rows: rows are read again by each block, and
/// from 16 rows on that is more than the weights; more tiles of scaled codes would not fit into
/// registers.
template <class Weights>
constexpr int wide_tiles(int row_tiles) {
  return has_factors<Weights> && row_tiles == 8 ? 2 : 4;
}
/// Returns whether so many blocks remain then that they keep a GPU busy (measured on an H100).
template <class Weights>
bool is_wide(int row_tiles, int tiles) {
  if (row_tiles == 2)
    return Weights::steps > 1 && tiles >= 1024;
  return row_tiles > 2 && tiles >= 256;
}

/// Returns whether there are deep blocks of a tile each.
template <class Weights>
constexpr bool has_deep(int row_tiles) {
  return row_tiles == 1 || (row_tiles == 2 && Weights::steps == 1);
}
/// Returns whether so few blocks leave room for them: at most two for each multiprocessor of an
/// H100, and not so few that they have 16 warps.
inline bool is_deep(int row_tiles, int tiles) {
  return tiles <= 2 * 132 && (row_tiles > 1 || tiles > 128);
}

/// Takes as many rows at once as there are, up to 64, or as a block's shared memory has room for;
/// where rows are many, with blocks whose warps share them.
template <class Weights, int row_tiles = 8, class Rows>
cudaError_t launch_product(const Queue& queue, const ProductCall<Rows>& call) {
  if constexpr (!Rows::routed && row_tiles == 8) {
    const int shared_tiles = matrix_row_tiles<Weights>(call.rows_max, call.tiles);
    if (shared_tiles == 16)
      return launch_matrix<Weights, 16>(queue, call);
    if constexpr (!has_factors<Weights>)
      if (shared_tiles == 8)
        return launch_matrix<Weights, 8>(queue, call);
  }
  constexpr BlockShape narrow{1, row_tiles};
  static_assert(row_tiles > 1 || 8 * sizeof(WarpShared<Weights, narrow>) <= shared_bytes_most);
  if constexpr (row_tiles > 1) {
    const int warps = std::min(call.w.layout.chains(), narrow.warps_max());
    const bool room = std::size_t(warps) * sizeof(WarpShared<Weights, narrow>) <= shared_bytes_most;
    if (!room || call.rows_few <= tile_rows * row_tiles / 2)
      return launch_product<Weights, row_tiles / 2>(queue, call);
  }
  if constexpr (!Rows::routed && row_tiles > 1) {
    constexpr BlockShape wide{wide_tiles<Weights>(row_tiles), row_tiles};
    const int warps = call.w.layout.chains();
    if (is_wide<Weights>(row_tiles, call.tiles) &&
        std::size_t(warps) * sizeof(WarpShared<Weights, wide>) <= shared_bytes_most)
      return launch_shape<Weights, wide>(queue, call);
  }
  if constexpr (!Rows::routed && has_deep<Weights>(row_tiles))
    if (is_deep(row_tiles, call.tiles))
      return launch_shape<Weights, BlockShape{1, row_tiles, true}>(queue, call);
  return launch_shape<Weights, narrow>(queue, call);
}

/// Launches a product with gates, of few rows.
template <class Weights>
cudaError_t launch_product(const Queue& queue, const ProductCall<GatedRows>& call) {
  return launch_shape<Weights, BlockShape{2, 1, true}>(queue, call);
}

/// Launches a product with scaled codes (linear_scaled.cu).
cudaError_t multiply_scaled(const Queue& queue, const ProductCall<AllRows>& call);
cudaError_t multiply_scaled(const Queue& queue, const ProductCall<GatedRows>& call);
cudaError_t multiply_scaled(const Queue& queue, const ProductCall<ExpertRows>& call);

} // namespace paceline::gpu::cuda::kernels
