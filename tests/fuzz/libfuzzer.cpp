// Connects a target with libFuzzer (./dev fuzz).
#include "tests/fuzz/fuzz.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  paceline::testing::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
