// What tests say to the emulated devices.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cuda_emulation {

/// How the emulated cuBLASLt adds.
enum class CublasAlgorithm {
  steady,            ///< A row always the same way.
  varies_with_rows,  ///< Otherwise in products of more than 64 rows,
  varies_with_place, ///< or behind a product's 64th row.
  splits,            ///< It says that it splits sums.
  wants_many,        ///< It is offered for products of more than 64 rows, and takes no others.
  offered_for_few,   ///< For others alone, first of all; steady, with other sums than `steady`.
};

struct Options {
  int devices = 1;
  std::size_t memory = std::size_t(4) << 30; ///< Of each.
  int driver_version = 13000;                ///< 0: no driver is installed.
  int capability_major = 9;
  int capability_minor = 0;
  bool graphs = true;      ///< Whether any can be instantiated.
  bool peers = true;       ///< Whether GPUs can reach each other's memory,
  bool pool_access = true; ///< and whether they are granted it.
  /// It draws orders of execution, for every launch its own, and inexact results.
  unsigned seed = 1;
  /// What it offers, best first. Which is best depends on the rows, as NVIDIA's does.
  std::vector<CublasAlgorithm> cublas{CublasAlgorithm::offered_for_few, CublasAlgorithm::steady};
};

/// Devices as new ones: none is lost. Streams and memory must be gone, or not be used any more.
void reset(const Options& options);

/// Makes everything on `device` fail from now on, as after a fault.
void lose(int device);

/// What a kernel did that the hardware leaves undefined; empty: nothing since the last reset.
std::string violation();

/// Whether kernels of the device may touch what lies there.
bool reaches(int device, const void* memory);

/// Kernels launched so far one by one, on all devices.
std::size_t launches();
/// Returns how many of these had clusters of several blocks.
std::size_t cluster_launches();

/// Kernels that ran so far, in graphs, too, and had this multiprocessor of a GPU to run on.
std::size_t kernels_on(int multiprocessor);

/// Graphs made so far, and launched.
std::size_t graphs_made();
std::size_t graph_launches();

/// What a profiler was told since this was last called: "THREAD: DOMAIN NAME ROWS" where a range
/// begins and "THREAD: end" where it ends, a blank more for each range that it is in.
std::vector<std::string> take_marks();

/// Calls so far that allocated memory, of a device or pinned.
std::size_t allocations();

} // namespace cuda_emulation
