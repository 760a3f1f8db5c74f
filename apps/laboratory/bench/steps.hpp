// Times of single forward passes, and the limits they are compared with, measured on the devices
// themselves, without actors.
#pragma once

#include "apps/laboratory/bench/machine.hpp"
#include "apps/laboratory/bench/sampler.hpp"
#include "gpu/cuda/yardstick.hpp"
#include "paceline/engine.hpp"

#include <map>
#include <optional>

namespace paceline::apps {

/// Medians, in seconds.
struct StepTimes {
  std::map<int, double> target;     ///< Times by rows: 1, 2, 4, 8, 16 at context 256.
  double draft = 0;                 ///< One row at context 256; 0: no draft model.
  double prefill_512 = 0;           ///< The target's, by its path; 0: its context is too short.
  double weight_bytes = 0;          ///< Bytes that a target step of one row reads.
  double prefill_multiply_adds = 0; ///< Multiply-adds of that prefill; 0: not known.

  MachineFigures machine;           ///< Measured on the target's cores; empty on a GPU.
  std::vector<SamplerTime> sampler; ///< Measured there, too.
  /// Products of a target on a GPU, at 1 to 64 rows and at 512.
  std::optional<Result<std::vector<gpu::cuda::ProductTimes>>> products;

  /// Returns the time of a target step of `rows`, interpolated between the measured ones.
  double target_seconds(double rows) const;
};

/// Loads the models once more, one after the other, on the devices that `target` and `draft` name,
/// and measures them.
Result<StepTimes> measure_steps(const ModelInfo& target, const std::optional<ModelInfo>& draft,
                                const EngineOptions& options);

} // namespace paceline::apps
