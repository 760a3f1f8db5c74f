// Turns CUDA's status codes into exceptions that name the failed call.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace paceline::gpu::cuda {

class CudaError final : public std::runtime_error {
public:
  CudaError(cudaError_t code, const char* expression);
  cudaError_t code() const noexcept { return code_; }

private:
  cudaError_t code_;
};

/// Describes a code, e.g. "out of memory (cudaErrorMemoryAllocation)".
std::string describe(cudaError_t code);

inline void check(cudaError_t code, const char* expression) {
  if (code != cudaSuccess)
    throw CudaError(code, expression);
}

} // namespace paceline::gpu::cuda

/// Throws a CudaError with the expression if its value is not cudaSuccess.
#define PACELINE_CUDA_CHECK(expression) ::paceline::gpu::cuda::check((expression), #expression)
