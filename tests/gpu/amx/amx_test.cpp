// What the program `amx` runs its test bodies over: the amx family on played tiles. It is the
// fastest that this program knows, so every engine in it takes it.
#include "gpu/cpu/kernels.hpp"
#include "tests/gpu/rig.hpp"

using namespace paceline;
using namespace paceline::gpu;

namespace paceline::gpu::testing {

std::vector<std::string> backends() {
  std::vector<std::string> names = kernel_names();
  std::erase_if(names, [](const std::string& name) { return name != "amx"; });
  return names;
}

} // namespace paceline::gpu::testing

TEST_CASE("every device of this program has the amx family") {
  if (testing::backends().empty()) {
    MESSAGE("skipped: the rest of the family's code needs AVX-512 BF16");
    return;
  }
  CHECK(cpu::choose_kernels().value()->name() == std::string("amx"));
}
