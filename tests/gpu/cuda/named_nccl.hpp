// Whether there is an NCCL on the emulated GPUs.
#pragma once

#include <cstdlib>

namespace paceline::gpu::testing {

/// What PACELINE_NCCL says for a while. Else it says "none" in these tests, for a library of real
/// GPUs may be installed (emulated_gpus.cpp).
class NamedNccl {
public:
  explicit NamedNccl(const char* file) { setenv("PACELINE_NCCL", file, 1); }
  /// Names the emulated GPUs' library, or none.
  explicit NamedNccl(bool there) : NamedNccl(there ? PACELINE_NCCL_EMULATED : "none") {}
  ~NamedNccl() { setenv("PACELINE_NCCL", "none", 1); }
  NamedNccl(const NamedNccl&) = delete;
  NamedNccl& operator=(const NamedNccl&) = delete;
};

} // namespace paceline::gpu::testing
