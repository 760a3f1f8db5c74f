// How much memory this process has taken.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace paceline::testing {

/// The most that it ever had at a time; 0: nobody knows.
inline std::size_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::size_t kib = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:")
      status >> kib;
  return kib << 10;
}

} // namespace paceline::testing
