// Ranges and names for NVIDIA's profilers (NVTX), which show what a lane's thread was at while its
// kernels were launched. Without a profiler a range costs next to nothing. Where NVTX's headers are
// missing, no_marks.cpp answers in place of marks.cpp.
#pragma once

#include <string>

namespace paceline::gpu::cuda {

/// The calling thread's name in a profile.
void name_thread(const std::string& name);

/// A range of the calling thread, in the domain "paceline", from now until it goes. Ranges nest.
class Range {
public:
  explicit Range(const std::string& name, int rows = 0); ///< rows: shown along with it.
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

} // namespace paceline::gpu::cuda
