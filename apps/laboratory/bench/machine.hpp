// The limits of the machine, measured on the target's own cores and weights.
#pragma once

#include "gpu/device.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <span>

namespace paceline::apps {

/// Figures of the machine; 0: not measured.
struct MachineFigures {
  int cores = 0;
  double read_bytes_per_second = 0;
  double multiply_adds_per_second = 0;
  double product_multiply_adds_per_second = 0;
  double barrier_seconds = 0;
};

using Weights = std::span<const std::shared_ptr<const gpu::Weight>>;

/// Returns the sum of their bytes.
double bytes_of(Weights weights);

/// Returns the seconds of plain reads of all weights, each divided among the threads of the lane.
/// weights: on a CPU device.
Result<std::vector<double>> time_reads(gpu::Lane& lane, Weights weights, int times);

/// Measures all figures but the reading: multiply-adds per second on all cores, of the kernels'
/// fastest instruction on registers, and of a whole product (512 rows with a dense random matrix
/// that stays in the caches); and the seconds of one barrier of all threads.
Result<MachineFigures> measure_machine(gpu::Device& device, gpu::Lane& lane);

/// Returns the most memory that this process has had at once, in bytes (Linux: VmHWM); 0: unknown.
std::size_t peak_resident_bytes();

} // namespace paceline::apps
