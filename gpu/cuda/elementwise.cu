// Work on elements and rows other than products, each a pass over memory.
#include "base/bf16.hpp"
#include "gpu/cuda/gate.cuh"
#include "gpu/cuda/weights.cuh"

#include <algorithm>
#include <type_traits>

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int row_threads = 256;

/// Returns the columns of a row with the padding of staging.
PACELINE_HOST_DEVICE int padded(int cols) {
  return staged_steps(cols) * step_inputs;
}

/// A reader of tables of f32 or f16. Element: the type in which they are stored.
template <class Element>
struct Numbers {
  static __device__ float value(const PackedWeight& w, int output, int input) {
    const std::byte* tile = w.data + std::size_t(output / tile_outputs) * w.layout.tile_bytes;
    const Element number = reinterpret_cast<const Element*>(
        tile)[weight_element(w.layout, output % tile_outputs, input)];
    if constexpr (std::is_same_v<Element, float>)
      return number;
    else
      return base::to_float(number);
  }
};

/// A reader of tables that are stored as operands, or in codes of them.
template <class Weights>
struct Operands {
  static __device__ float value(const PackedWeight& w, int output, int input) {
    const int lane = output % 8 * 4 + input % 8 / 2;
    const OperandNumbers all =
        numbers_of<Weights>(w, output / tile_outputs, input / step_inputs, lane);
    const int pair = input % step_inputs / 8 * 2 + output % tile_outputs / 8;
    return all.numbers[pair * 2 + input % 2];
  }
};

/// Embeds rows, one block per row.
/// tokens: those of the rows; null: they are at `places`.
template <class Reader>
__global__ void embed_rows(Tensor out, PackedWeight table, const std::int32_t* tokens,
                           const std::int32_t* const* places, float scale, bool add) {
  ptx::await_previous();
  const int row = int(blockIdx.x);
  const std::int32_t token = tokens ? tokens[row] : *places[row];
  const bool known = token >= 0 && token < table.layout.outputs;
  for (int i = int(threadIdx.x); i < out.cols; i += int(blockDim.x)) {
    const float value = known ? Reader::value(table, token, i) * scale : 0.0f;
    float& to = out.row(row)[i];
    to = add ? to + value : value;
  }
}

template <class Reader>
cudaError_t launch_embed(const Queue& queue, Tensor out, const PackedWeight& table,
                         const std::int32_t* tokens, const std::int32_t* const* places, float scale,
                         bool add) {
  return launch(queue, dim3(unsigned(out.rows)), row_threads, 0, embed_rows<Reader>, out, table,
                tokens, places, scale, add);
}

cudaError_t embed_from(const Queue& queue, Tensor out, const PackedWeight& table,
                       const std::int32_t* tokens, const std::int32_t* const* places, float scale,
                       bool add = false) {
  switch (table.layout.format) {
  case WeightFormat::f32:
    return launch_embed<Numbers<float>>(queue, out, table, tokens, places, scale, add);
  case WeightFormat::f16:
    return launch_embed<Numbers<base::f16>>(queue, out, table, tokens, places, scale, add);
  default:
    return with_weights(table.layout.format, [&](auto weights) {
      return launch_embed<Operands<decltype(weights)>>(queue, out, table, tokens, places, scale,
                                                       add);
    });
  }
}

/// Stages rows; the grid's threads cover columns in x and rows in y.
__global__ void stage_rows(StagedRows staged, Tensor in) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column < padded(in.cols))
    stage_number(staged, in.cols, row, column, column < in.cols ? in.row(row)[column] : 0.0f);
}

struct NormShared {
  float sums[block_warps_max];
};

/// Pairs of columns that a thread of a norm keeps in its registers.
constexpr int pairs_max = 4;

/// Returns the threads for a row: enough to keep it in registers, 1024 at most.
int norm_threads(int cols) {
  const int wanted = divide_up(padded(cols), 2 * pairs_max);
  return std::clamp(divide_up(wanted, warp_lanes) * warp_lanes, row_threads,
                    block_warps_max * warp_lanes);
}

/// Normalises rows, one block per row: with a bias (`centred`) by layer norms, else by RMS norms. A
/// thread takes pairs of neighbours, which stay in registers if they are few.
template <bool centred>
__global__ void __launch_bounds__(block_warps_max* warp_lanes)
    norm_rows(Tensor out, Tensor in, const float* weight, const float* bias, float epsilon,
              bool add, float scale, StagedRows staged) {
  auto& shared = ptx::shared_memory<NormShared>();
  const int row = int(blockIdx.x);
  const int cols = in.cols;
  const int step = 2 * int(blockDim.x);
  const int begin = 2 * int(threadIdx.x);
  const auto pair_of = [cols](const float* from, int i, float minus = 0) {
    return float2{i < cols ? from[i] - minus : 0.0f, i + 1 < cols ? from[i + 1] - minus : 0.0f};
  };
  float2 weights[pairs_max];
#pragma unroll
  for (int k = 0; k < pairs_max; ++k)
    weights[k] = pair_of(weight, begin + k * step);
  ptx::await_previous();
  const float* from = in.row(row);
  float* to = out.row(row);
  float2 kept[pairs_max];
#pragma unroll
  for (int k = 0; k < pairs_max; ++k)
    kept[k] = pair_of(from, begin + k * step);
  float mean = 0;
  if constexpr (centred) {
    float total = 0;
#pragma unroll
    for (int k = 0; k < pairs_max; ++k)
      total += kept[k].x + kept[k].y;
    for (int i = begin + pairs_max * step; i < cols; i += step) {
      const float2 pair = pair_of(from, i);
      total += pair.x + pair.y;
    }
    mean = block_reduce(total, Add(), shared.sums) / float(cols);
#pragma unroll
    for (int k = 0; k < pairs_max; ++k) // Behind the row's end are zeros.
      kept[k] = {begin + k * step < cols ? kept[k].x - mean : 0.0f,
                 begin + k * step + 1 < cols ? kept[k].y - mean : 0.0f};
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < pairs_max; ++k)
    squares = fmaf(kept[k].y, kept[k].y, fmaf(kept[k].x, kept[k].x, squares));
  for (int i = begin + pairs_max * step; i < cols; i += step) {
    const float2 pair = pair_of(from, i, mean);
    squares = fmaf(pair.y, pair.y, fmaf(pair.x, pair.x, squares));
  }
  squares = block_reduce(squares, Add(), shared.sums);
  const float factor = 1 / sqrtf(squares / float(cols) + epsilon);
  const auto leave = [&](int i, float2 value, float2 by) {
    float2 normed{value.x * factor * by.x, value.y * factor * by.y};
    if constexpr (centred) {
      const float2 plus = pair_of(bias, i);
      normed = {normed.x + plus.x, normed.y + plus.y};
    }
    if (i < cols)
      to[i] = add ? scale * (to[i] + normed.x) : normed.x;
    if (i + 1 < cols)
      to[i + 1] = add ? scale * (to[i + 1] + normed.y) : normed.y;
    if (staged.data)
      *reinterpret_cast<std::uint32_t*>(staged.data + staged_element(cols, row, i)) =
          ptx::round_pair(normed.x, normed.y);
  };
  const int all = padded(cols);
#pragma unroll
  for (int k = 0; k < pairs_max; ++k)
    if (const int i = begin + k * step; i < all)
      leave(i, kept[k], weights[k]);
  for (int i = begin + pairs_max * step; i < all; i += step)
    leave(i, pair_of(from, i, mean), pair_of(weight, i));
}

/// Sets a number of each row to what make(row, column) returns.
template <class F>
__device__ void make_rows(Tensor out, StagedRows staged, const F& make) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column >= padded(out.cols))
    return;
  float value = 0;
  if (column < out.cols) {
    value = make(row, column);
    out.row(row)[column] = value;
  }
  stage_number(staged, out.cols, row, column, value);
}

__global__ void gate_rows(Tensor out, Tensor in, Gating gating, StagedRows staged) {
  make_rows(out, staged, [&](int row, int column) {
    return gated(in.row(row)[column], in.row(row)[out.cols + column], gating);
  });
}

__global__ void activate_rows(Tensor out, Tensor in, Activation activation, StagedRows staged) {
  make_rows(out, staged,
            [&](int row, int column) { return activated(in.row(row)[column], activation); });
}

__global__ void cap_rows(Tensor x, float cap) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= x.cols)
    return;
  float& value = x.row(int(blockIdx.y))[column];
  value = cap * tanhf(value / cap);
}

__global__ void gather_rows(Tensor out, Tensor in, const std::int32_t* rows) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column < out.cols)
    out.row(row)[column] = in.row(rows[row])[column];
}

__global__ void scatter_rows(Tensor out, Tensor in, const std::int32_t* rows) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column < in.cols)
    out.row(rows[row])[column] = in.row(row)[column];
}

__global__ void gather_columns_of_rows(Tensor out, Tensor in, const float* columns) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column >= out.cols)
    return;
  const int from = int(columns[column]);
  out.row(row)[column] = from < 0 ? -INFINITY : in.row(row)[from];
}

/// Copies a block's share of a page, 16 bytes at a time.
__global__ void copy_whole_pages(std::byte* pages, std::size_t page_bytes, const PageCopy* copies) {
  ptx::await_previous();
  const PageCopy copy = copies[blockIdx.y];
  const auto* from = reinterpret_cast<const uint4*>(pages + copy.from * page_bytes);
  auto* to = reinterpret_cast<uint4*>(pages + copy.to * page_bytes);
  const std::size_t units = page_bytes / sizeof(uint4);
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < units;
       i += std::size_t(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

__global__ void sum_parts(Tensor out, const float* parts, int count, bool add) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column >= out.cols)
    return;
  const std::size_t size = std::size_t(out.rows) * std::size_t(out.cols);
  const float* part = parts + std::size_t(row) * std::size_t(out.cols) + column;
  float sum = *part;
  for (int i = 1; i < count; ++i)
    sum += part[std::size_t(i) * size];
  float& to = out.row(row)[column];
  to = add ? to + sum : sum;
}

dim3 grid_over(int cols, int rows) {
  return {unsigned(divide_up(cols, row_threads)), unsigned(rows), 1};
}

} // namespace

cudaError_t embed(const Queue& queue, Tensor out, const PackedWeight& table,
                  const std::int32_t* tokens, float scale) {
  return embed_from(queue, out, table, tokens, nullptr, scale);
}

cudaError_t embed_drawn(const Queue& queue, Tensor out, const PackedWeight& table,
                        const std::int32_t* const* places, float scale) {
  return embed_from(queue, out, table, nullptr, places, scale);
}

cudaError_t embed_add(const Queue& queue, Tensor out, const PackedWeight& table,
                      const std::int32_t* ids) {
  return embed_from(queue, out, table, ids, nullptr, 1, true);
}

cudaError_t stage(const Queue& queue, StagedRows out, Tensor in) {
  return launch(queue, grid_over(staged_steps(in.cols) * step_inputs, in.rows), row_threads, 0,
                stage_rows, out, in);
}

cudaError_t rms_norm(const Queue& queue, Tensor out, Tensor in, const float* weight, float epsilon,
                     StagedRows staged) {
  return launch(queue, dim3(unsigned(in.rows)), norm_threads(in.cols), sizeof(NormShared),
                norm_rows<false>, out, in, weight, nullptr, epsilon, false, 1.0f, staged);
}

cudaError_t rms_norm_add(const Queue& queue, Tensor out, Tensor in, const float* weight,
                         float epsilon, float scale) {
  return launch(queue, dim3(unsigned(in.rows)), norm_threads(in.cols), sizeof(NormShared),
                norm_rows<false>, out, in, weight, nullptr, epsilon, true, scale, StagedRows{});
}

cudaError_t layer_norm(const Queue& queue, Tensor out, Tensor in, const float* weight,
                       const float* bias, float epsilon, StagedRows staged) {
  return launch(queue, dim3(unsigned(in.rows)), norm_threads(in.cols), sizeof(NormShared),
                norm_rows<true>, out, in, weight, bias, epsilon, false, 1.0f, staged);
}

cudaError_t gate(const Queue& queue, Tensor out, Tensor in, const Gating& gating,
                 StagedRows staged) {
  return launch(queue, grid_over(staged_steps(out.cols) * step_inputs, out.rows), row_threads, 0,
                gate_rows, out, in, gating, staged);
}

cudaError_t activate(const Queue& queue, Tensor out, Tensor in, Activation activation,
                     StagedRows staged) {
  return launch(queue, grid_over(staged_steps(out.cols) * step_inputs, out.rows), row_threads, 0,
                activate_rows, out, in, activation, staged);
}

cudaError_t soft_cap(const Queue& queue, Tensor x, float cap) {
  return launch(queue, grid_over(x.cols, x.rows), row_threads, 0, cap_rows, x, cap);
}

cudaError_t sum(const Queue& queue, Tensor out, const float* parts, int count, bool add) {
  return launch(queue, grid_over(out.cols, out.rows), row_threads, 0, sum_parts, out, parts, count,
                add);
}

cudaError_t gather(const Queue& queue, Tensor out, Tensor in, const std::int32_t* rows) {
  return launch(queue, grid_over(out.cols, out.rows), row_threads, 0, gather_rows, out, in, rows);
}

cudaError_t scatter(const Queue& queue, Tensor out, Tensor in, const std::int32_t* rows) {
  return launch(queue, grid_over(in.cols, in.rows), row_threads, 0, scatter_rows, out, in, rows);
}

cudaError_t gather_columns(const Queue& queue, Tensor out, Tensor in, const float* columns) {
  return launch(queue, grid_over(out.cols, out.rows), row_threads, 0, gather_columns_of_rows, out,
                in, columns);
}

cudaError_t copy_pages(const Queue& queue, std::byte* pages, std::size_t page_bytes,
                       const PageCopy* copies, int count) {
  const auto units = std::min<std::size_t>(page_bytes / sizeof(uint4), 16 * row_threads);
  const dim3 grid(unsigned(divide_up(int(units), row_threads)), unsigned(count));
  return launch(queue, grid, row_threads, 0, copy_whole_pages, pages, page_bytes, copies);
}

} // namespace paceline::gpu::cuda::kernels
