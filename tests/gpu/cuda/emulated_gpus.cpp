// The back ends of the program `cuda`: as many GPUs as a test asks for.
#include "tests/gpu/backends.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

#include <doctest/doctest.h>

namespace paceline::gpu::testing {

std::vector<std::string> backends() {
  return {"cuda:0"};
}

Gpus::Gpus(int count) : there_(true) {
  cuda_emulation::reset({.devices = count});
}

Gpus::~Gpus() {
  CHECK(cuda_emulation::violation().empty());
  cuda_emulation::reset({});
}

} // namespace paceline::gpu::testing
