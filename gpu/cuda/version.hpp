// Versions of CUDA and its libraries.
#pragma once

#include <string>

namespace paceline::gpu::cuda {

/// A version, e.g. "13.0".
struct Version {
  int major = 0;
  int minor = 0;
};
inline std::string to_string(Version v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor);
}

} // namespace paceline::gpu::cuda
