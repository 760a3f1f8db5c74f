#include "apps/laboratory/theory/measurement.hpp"

#include "apps/laboratory/bench/expectation.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::apps::theory {
namespace {

/// Returns the share of the outcomes that a chain does not cover which came true as forks.
double guessed_of(const ModeResult& overlap) {
  const double chain =
      sampling::theory::chain_hit(overlap.acceptance_rate, int(std::lround(overlap.window)));
  return chain < 1 ? std::clamp((overlap.hits_per_round - chain) / (1 - chain), 0.0, 1.0) : 0;
}

} // namespace

Result<Quantities> quantities_of(const BenchReport& report) {
  const auto costs = step_costs(report);
  const ModeResult* sync = find_mode(report, SpeculationMode::sync);
  if (!costs || !sync)
    return fail(ErrorCode::invalid_argument, "no step of a draft was measured beside a target's",
                "name a --draft-model that is a model, and one --device for the target");
  Quantities measured;
  measured.acceptance = sync->acceptance_rate;
  measured.draft_cost = costs->c();
  measured.draft_operations = double(report.draft->parameters) /
                              double(std::max<std::uint64_t>(report.target.parameters, 1));
  measured.verify = [costs = *costs](int window) { return costs.v(window); };
  if (const ModeResult* overlap = find_mode(report, SpeculationMode::overlap))
    measured.guessed = guessed_of(*overlap);
  return measured;
}

int longest_window(const BenchReport& report) {
  const int rows = report.steps && !report.steps->target.empty()
                       ? report.steps->target.rbegin()->first
                       : sampling::limits::window_max + 1;
  return rows - 1;
}

std::optional<gpu::sim::DataSheet> measured_sheet(const BenchReport& report) {
  if (!report.steps || !(report.steps->machine.product_multiply_adds_per_second > 0))
    return std::nullopt;
  const MachineFigures& machine = report.steps->machine;
  return gpu::sim::DataSheet{"here", 2 * machine.product_multiply_adds_per_second,
                             machine.read_bytes_per_second, 0, "measured, by products"};
}

} // namespace paceline::apps::theory
