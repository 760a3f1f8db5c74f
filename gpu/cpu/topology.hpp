// Finds the usable cores, and binds threads to them.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::gpu::cpu {

/// One logical core that this process may use.
struct Core {
  int index = 0;    ///< The system's number of the core.
  int physical = 0; ///< Logical cores with equal numbers share a physical one.
};

/// Returns the usable cores in the system's order; at least one.
std::vector<Core> usable_cores();

/// Returns the cores of a device: those named, or all usable ones. A core that does not exist or
/// that the process may not use is an error.
Result<std::vector<Core>> select_cores(const std::vector<int>& named);

/// Returns the first logical core of each physical one.
std::vector<int> one_per_physical(const std::vector<Core>& cores);

/// Formats cores, e.g. "0-3,8" for {0, 1, 2, 3, 8}. cores: sorted.
std::string core_list(const std::vector<Core>& cores);

/// Binds the calling thread; if the system refuses, the thread stays unbound.
void bind_to_core(int index);

} // namespace paceline::gpu::cpu
