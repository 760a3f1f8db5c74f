// The quantities of docs/theory.md as `bench` measures them.
#pragma once

#include "apps/laboratory/bench/figures.hpp"
#include "apps/laboratory/theory/speculation.hpp"
#include "gpu/sim/data_sheet.hpp"

#include <optional>

namespace paceline::apps::theory {

/// Returns a, c, v and the share of rejections that have a fork. Errors: nothing drafts that takes
/// steps, or the target is divided.
Result<Quantities> quantities_of(const BenchReport& report);

/// Returns the longest window whose verification was measured.
int longest_window(const BenchReport& report);

/// Returns what the target's device computes and reads; none: it was not measured.
std::optional<gpu::sim::DataSheet> measured_sheet(const BenchReport& report);

} // namespace paceline::apps::theory
