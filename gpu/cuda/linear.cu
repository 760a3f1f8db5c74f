// Products with weights of f32 and f16, and the choice of a product by its weight's format.
// Products with f32 and f16 are exact, and each is added in f32. A warp makes one output; its lanes
// stride over the inputs.
#include "base/bf16.hpp"
#include "gpu/cuda/launch_product.cuh"

#include <algorithm>

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int exact_rows = 8;
constexpr int exact_warps = 4;

/// 16 bytes of weights.
template <class Element>
struct alignas(sizeof(uint4)) Vector {
  static constexpr int width = int(sizeof(uint4) / sizeof(Element));
  Element elements[width];
};
__device__ __forceinline__ float exact(float value) {
  return value;
}
__device__ __forceinline__ float exact(base::f16 value) {
  return base::to_float(value);
}

/// Computes a product. blockIdx: x: outputs of an expert in groups of the block's warps, y: rows in
/// groups of 8, z: as Rows says. outputs: those of an expert.
template <class Element, class Rows>
__global__ void __launch_bounds__(exact_warps* warp_lanes)
    exact_product(Tensor out, Tensor in, PackedWeight w, bool add, Rows rows, int outputs) {
  ptx::await_previous();
  constexpr int width = Vector<Element>::width;
  const Part part = rows.part();
  const int column = int(blockIdx.x) * exact_warps + warp_index();
  const int output = part.expert * outputs + column;
  const int first_row = part.first + int(blockIdx.y) * exact_rows;
  if (column >= outputs || first_row >= part.end)
    return;
  const std::byte* tile = w.data + std::size_t(output / tile_outputs) * w.layout.tile_bytes;
  const auto* weights =
      reinterpret_cast<const Element*>(tile) + weight_element(w.layout, output % tile_outputs, 0);
  const float* from[exact_rows];
  for (int r = 0; r < exact_rows; ++r)
    from[r] = first_row + r < part.end ? in.row(rows.source(first_row + r)) : nullptr;
  float sums[exact_rows] = {};
  for (int first = lane_index() * width; first < w.layout.inputs; first += warp_lanes * width) {
    const auto vector = *reinterpret_cast<const Vector<Element>*>(weights + first);
    for (int i = 0; i < width; ++i)
      for (int r = 0; r < exact_rows; ++r)
        if (first + i < w.layout.inputs && first_row + r < part.end)
          sums[r] = fmaf(from[r][first + i], exact(vector.elements[i]), sums[r]);
  }
  for (int r = 0; r < exact_rows && first_row + r < part.end; ++r) {
    const float sum = warp_reduce(sums[r], Add());
    if (lane_index() == 0)
      store(out.row(first_row + r)[column], sum, w.bias ? w.bias + output : nullptr, add);
  }
}

template <class Element, class Rows>
cudaError_t launch_exact(const Queue& queue, const ProductCall<Rows>& call) {
  const int outputs = call.rows.routed ? call.tiles * tile_outputs : call.w.layout.outputs;
  const dim3 grid(unsigned(divide_up(outputs, exact_warps)),
                  unsigned(divide_up(call.rows_max, exact_rows)), unsigned(call.parts));
  return launch(queue, grid, exact_warps * warp_lanes, 0, exact_product<Element, Rows>, call.out,
                call.in, call.w, call.add, call.rows, outputs);
}

/// Multiplies rows that are rounded.
template <class Rows>
cudaError_t multiply_rounded(const Queue& queue, const ProductCall<Rows>& call) {
  const WeightFormat format = call.w.layout.format;
  if (has_scaled_codes(format))
    return multiply_scaled(queue, call);
  if (format == WeightFormat::bf16)
    return launch_product<PlainWeights>(queue, call);
  return with_mx_weights(
      format, [&](auto weights) { return launch_product<decltype(weights)>(queue, call); });
}

template <class Rows>
cudaError_t multiply(const Queue& queue, const ProductCall<Rows>& call) {
  switch (call.w.layout.format) {
  case WeightFormat::f32: return launch_exact<float>(queue, call);
  case WeightFormat::f16: return launch_exact<base::f16>(queue, call);
  default: return multiply_rounded(queue, call);
  }
}

} // namespace

cudaError_t linear(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                   const PackedWeight& w, bool add) {
  return multiply(
      queue, ProductCall<AllRows>{
                 out, in, staged, w, add, {out.rows}, out.rows, out.rows, w.layout.tiles(), 1});
}

bool joins_gate(const PackedLayout& layout, int rows) {
  return layout.rounds_rows() && rows <= tile_rows && layout.outputs % (2 * tile_outputs) == 0 &&
         layout.chains() <= 8;
}

cudaError_t linear_gate(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                        const PackedWeight& w, const Gating& gating, StagedRows staged_out) {
  const GatedRows rows{{out.rows}, gating, staged_out};
  return multiply_rounded(queue, ProductCall<GatedRows>{out, in, staged, w, false, rows, out.rows,
                                                        out.rows, w.layout.tiles(), 1});
}

cudaError_t expert_linear(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                          RoutedRows order, const PackedWeight& w, int first_output,
                          const Routing& routing) {
  const ExpertRows rows{routing, order, first_output / tile_outputs};
  const int each = divide_up(routing.picks(), routing.experts);
  return multiply(queue, ProductCall<ExpertRows>{out, in, staged, w, false, rows, routing.rows,
                                                 std::min(routing.rows, 2 * each),
                                                 divide_up(out.cols, tile_outputs), rows.parts()});
}

} // namespace paceline::gpu::cuda::kernels
