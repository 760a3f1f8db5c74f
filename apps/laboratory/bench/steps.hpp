// Times of single forward passes and the limits they are held against, measured on the devices
// themselves: no actors.
#pragma once

#include "apps/laboratory/bench/machine.hpp"
#include "apps/laboratory/bench/sampler.hpp"
#include "gpu/cuda/yardstick.hpp"
#include "paceline/engine.hpp"

#include <map>
#include <optional>

namespace paceline::apps {

/// Seconds, medians.
struct StepTimes {
  std::map<int, double> target;     ///< By rows: 1, 2, 4, 8, 16 at context 256.
  double draft = 0;                 ///< One row at context 256; 0: no draft model.
  double prefill_512 = 0;           ///< Of the target, by its path; 0: its context is too short.
  double weight_bytes = 0;          ///< That a target step of one row reads.
  double prefill_multiply_adds = 0; ///< Of that prefill; 0: not known.

  MachineFigures machine;           ///< On the target's cores; on a GPU none.
  std::vector<SamplerTime> sampler; ///< The same.
  /// Of a target on a GPU, at 1 to 64 rows and at 512.
  std::optional<Result<std::vector<gpu::cuda::ProductTimes>>> products;

  /// Of a target step of `rows`, between the measured ones.
  double target_seconds(double rows) const;
};

/// Loads the models once more, one after the other, on the devices that `target` and `draft` name.
Result<StepTimes> measure_steps(const ModelInfo& target, const std::optional<ModelInfo>& draft,
                                const EngineOptions& options);

} // namespace paceline::apps
