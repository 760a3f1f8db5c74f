// Replaces the users of cuBLASLt in builds with CUDA but without cuBLASLt's header.
#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/yardstick.hpp"

namespace paceline::gpu::cuda {
namespace {

tl::unexpected<Error> not_built() {
  return fail(ErrorCode::unsupported, "this build has no cuBLASLt",
              "leave EngineOptions::prefill out, or build where libcublas-dev is (docs/cuda.md)");
}

} // namespace

Result<FastProductsRef> prepare_fast_products(const std::shared_ptr<Context>&,
                                              std::span<const std::shared_ptr<const Weight>>, int) {
  return not_built();
}

Result<Version> cublas_version() {
  return not_built();
}

Result<std::vector<ProductTimes>> time_products(const std::string&,
                                                std::span<const std::shared_ptr<const Weight>>,
                                                std::span<const int>) {
  return not_built();
}

} // namespace paceline::gpu::cuda
