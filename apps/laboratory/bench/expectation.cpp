#include "apps/laboratory/bench/expectation.hpp"

#include "apps/console/validators.hpp"
#include "base/clock.hpp"
#include "gpu/sim/profile.hpp"
#include "models/stages.hpp"
#include "sampling/theory.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::apps {
namespace {

/// Returns the bits of a weight in the model's blocks.
double bits_of_blocks(const ModelInfo& model) {
  if (const auto format = meaning(choices_of<WeightFormat>(), model.weights))
    return models::bits_of(*format);
  if (model.weights == to_string(WeightFormat::f32))
    return 32;
  if (meaning(choices_of<NumberFormat>(), model.weights))
    return 16;
  return 8 * double(model.weight_bytes) / double(model.parameters); // A GGUF file's.
}

/// Returns the profile of a model's simulated device, with the model on it.
Result<gpu::sim::Profile> profile_of(const ModelInfo& model) {
  auto profile = gpu::sim::parse_profile(model.device.substr(std::string_view("sim:").size()));
  if (profile) {
    auto width = std::make_shared<gpu::sim::WeightWidth>();
    width->add({}, 8, bits_of_blocks(model));
    profile->width = std::move(width);
  }
  return profile;
}

} // namespace

const ModeResult* find_mode(const BenchReport& report, SpeculationMode mode) {
  const auto found = std::ranges::find(report.modes, mode, &ModeResult::mode);
  return found == report.modes.end() ? nullptr : &*found;
}

std::optional<double> speed_ratio(const BenchReport& report, SpeculationMode above,
                                  SpeculationMode below) {
  const ModeResult* a = find_mode(report, above);
  const ModeResult* b = find_mode(report, below);
  if (!a || !b || b->tokens_per_second == 0)
    return std::nullopt;
  return a->tokens_per_second / b->tokens_per_second;
}

std::optional<StepCosts> step_costs(const BenchReport& report) {
  if (report.steps && report.steps->draft > 0)
    return StepCosts{[steps = *report.steps](int rows) { return steps.target_seconds(rows); },
                     report.steps->draft};
  if (!report.simulated || !report.draft)
    return std::nullopt;
  const auto target = profile_of(report.target);
  const auto draft = profile_of(*report.draft);
  if (!target || !draft)
    return std::nullopt;
  using Kind = gpu::Work::Kind;
  return StepCosts{[target](int rows) {
                     return base::seconds(target->latency({Kind::decode, rows, 1, 0}));
                   },
                   base::seconds(draft->latency({Kind::draft, 1, 1, 0}))};
}

std::optional<double> expected_gain(const BenchReport& report, SpeculationMode mode) {
  const ModeResult* figures = find_mode(report, mode);
  const auto costs = step_costs(report);
  if (!figures || !costs || figures->window < 1)
    return std::nullopt;
  namespace theory = sampling::theory;
  const double a = figures->acceptance_rate;
  const int window = int(std::lround(figures->window));
  const double v = costs->v(window);
  if (mode == SpeculationMode::sync)
    return theory::sync_rate(a, window, costs->c(), v);
  if (mode == SpeculationMode::overlap && report.simulated)
    return theory::overlap_rate(a, window, costs->c(), v, figures->hits_per_round);
  return std::nullopt;
}

} // namespace paceline::apps
