#include "gpu/cuda/check.hpp"

#include <fmt/format.h>

namespace paceline::gpu::cuda {

CudaError::CudaError(cudaError_t code, const char* expression)
    : std::runtime_error(fmt::format("{}: {}", expression, describe(code))), code_(code) {}

std::string describe(cudaError_t code) {
  return fmt::format("{} ({})", cudaGetErrorString(code), cudaGetErrorName(code));
}

} // namespace paceline::gpu::cuda
