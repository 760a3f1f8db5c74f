// What the formulas of docs/theory.md say to the figures of one run.
#pragma once

#include "apps/laboratory/bench/figures.hpp"

#include <functional>
#include <optional>

namespace paceline::apps {

/// Returns one mode's figures; null: it was not measured.
const ModeResult* find_mode(const BenchReport& report, SpeculationMode mode);

/// Returns one mode's tokens per second over another's; none unless both were measured.
std::optional<double> speed_ratio(const BenchReport& report, SpeculationMode above,
                                  SpeculationMode below);

/// Times of single steps, of which the formulas take ratios.
struct StepCosts {
  std::function<double(int rows)> target; ///< Seconds of a target step.
  double draft = 0;                       ///< Seconds of a draft step.

  double c() const { return draft / target(1); }
  double v(int window) const { return target(window + 1) / target(1); }
};

/// Returns the costs as they were measured, or from the simulated devices' profiles; none: neither
/// is known, or nothing drafts that takes steps.
std::optional<StepCosts> step_costs(const BenchReport& report);

/// Returns what a mode gains over plain decoding by its formula, from the acceptance, the window
/// and, for overlap, the hits that it had: E / (K c + v) for `sync`, E / (v + (1 - h) K c) for
/// `overlap`, which assumes that draft and target have a device each, as only simulated ones have.
/// None for other modes, and where no costs are known.
std::optional<double> expected_gain(const BenchReport& report, SpeculationMode mode);

} // namespace paceline::apps
