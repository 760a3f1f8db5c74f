// The limits of the machine, measured on the target's own cores between its own measurements.
#pragma once

#include "gpu/device.hpp"
#include "paceline/engine.hpp"

#include <memory>

namespace paceline::apps {

/// A lane like the target's, and as much memory as its weights take (1 GiB at most).
class Machine {
public:
  /// device: the target's name; threads: as the target's.
  static Result<Machine> open(const ModelInfo& target, int threads);

  /// Bytes per second of a plain read on all cores of the lane, once.
  Result<double> read_bytes_per_second();
  /// Multiply-adds per second on all cores: of the kernels' fastest instruction on registers.
  Result<double> multiply_adds_per_second();
  /// The same of a whole product: 512 rows with a dense random matrix that stays in the caches.
  Result<double> product_multiply_adds_per_second();
  gpu::Lane& lane() { return *lane_; }

private:
  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<gpu::Buffer> memory_;
  std::unique_ptr<gpu::Lane> lane_;
};

/// The most memory that this process has had at once, in bytes (Linux: VmHWM); 0: unknown.
std::size_t peak_resident_bytes();

} // namespace paceline::apps
