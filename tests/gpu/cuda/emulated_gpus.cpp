// The back ends of the program `cuda`: as many GPUs as a test asks for.
#include "tests/gpu/backends.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

namespace paceline::gpu::testing {
namespace {

/// The emulated cuBLASLt takes the real one's place, no real NCCL is loaded, and new memory holds
/// NaN.
[[maybe_unused]] const int named = setenv("PACELINE_CUBLASLT", PACELINE_CUBLAS_EMULATED, 1);
[[maybe_unused]] const int fresh = setenv("PACELINE_CUDA_FRESH_MEMORY", "1", 1);
[[maybe_unused]] const int none = setenv("PACELINE_NCCL", "none", 1);

} // namespace

std::vector<std::string> backends() {
  return {"cuda:0"};
}

Gpus::Gpus(int count, bool linked) : there_(true) {
  cuda_emulation::reset({.devices = count, .peers = linked});
}

Gpus::~Gpus() {
  CHECK(cuda_emulation::violation().empty());
  cuda_emulation::reset({});
}

} // namespace paceline::gpu::testing
