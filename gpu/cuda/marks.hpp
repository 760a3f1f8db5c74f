// Ranges and names for NVIDIA's profilers (NVTX), which show what a lane's thread did while it
// launched kernels. Without a profiler a range costs next to nothing. If NVTX's headers are
// missing, no_marks.cpp replaces marks.cpp.
#pragma once

#include <string>

namespace paceline::gpu::cuda {

/// Sets the calling thread's name in a profile.
void name_thread(const std::string& name);

/// A range of the calling thread, in the domain "paceline", for the object's lifetime. Ranges nest.
class Range {
public:
  explicit Range(const std::string& name, int rows = 0); ///< rows: shown with it.
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

} // namespace paceline::gpu::cuda
