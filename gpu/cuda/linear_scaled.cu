// Products with scaled codes, which are compiled apart because their formats are many.
#include "gpu/cuda/launch_product.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

template <class Rows>
cudaError_t multiply(const Queue& queue, const ProductCall<Rows>& call) {
  return with_scaled_weights(call.w.layout.format, [&](auto weights) {
    return launch_product<decltype(weights)>(queue, call);
  });
}

} // namespace

cudaError_t multiply_scaled(const Queue& queue, const ProductCall<AllRows>& call) {
  return multiply(queue, call);
}

cudaError_t multiply_scaled(const Queue& queue, const ProductCall<GatedRows>& call) {
  return multiply(queue, call);
}

cudaError_t multiply_scaled(const Queue& queue, const ProductCall<ExpertRows>& call) {
  return multiply(queue, call);
}

} // namespace paceline::gpu::cuda::kernels
