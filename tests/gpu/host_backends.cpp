// The back ends of the program `gpu`.
#include "tests/gpu/backends.hpp"

namespace paceline::gpu::testing {

std::vector<std::string> backends() {
  return kernel_names();
}

} // namespace paceline::gpu::testing
