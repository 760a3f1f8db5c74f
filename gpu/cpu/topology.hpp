// Which cores there are, and binding threads to them.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::gpu::cpu {

/// One logical core that this process may use.
struct Core {
  int index = 0;    ///< The system's number of it.
  int physical = 0; ///< Logical cores with equal numbers share a physical one.
};

/// In the system's order; never empty.
std::vector<Core> usable_cores();

/// The cores of a device: those named, or all that are usable. A core that does not exist or that
/// the process may not use is an error.
Result<std::vector<Core>> select_cores(const std::vector<int>& named);

/// The first logical core of each physical one.
std::vector<int> one_per_physical(const std::vector<Core>& cores);

/// "0-3,8" for {0, 1, 2, 3, 8}; the list is sorted.
std::string core_list(const std::vector<Core>& cores);

/// Binds the calling thread; where the system refuses, the thread stays where it is.
void bind_to_core(int index);

} // namespace paceline::gpu::cpu
