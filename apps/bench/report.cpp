#include "apps/bench/report.hpp"

#include "apps/output.hpp"
#include "sampling/theory.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

const ModeResult* find(const BenchReport& report, SpeculationMode mode) {
  for (const ModeResult& result : report.modes)
    if (result.mode == mode)
      return &result;
  return nullptr;
}

/// Tokens per second of one mode over another's; none unless both were measured.
std::optional<double> speed_ratio(const BenchReport& report, SpeculationMode above,
                                  SpeculationMode below) {
  const ModeResult* a = find(report, above);
  const ModeResult* b = find(report, below);
  if (!a || !b || b->tokens_per_second == 0)
    return std::nullopt;
  return a->tokens_per_second / b->tokens_per_second;
}

/// The speed-up of `sync` over what E / (K c + v) says with the measured a, K, c and v.
std::optional<double> sync_over_formula(const BenchReport& report) {
  const auto gain = speed_ratio(report, SpeculationMode::sync, SpeculationMode::off);
  const ModeResult* sync = find(report, SpeculationMode::sync);
  if (!gain || !report.steps || report.steps->draft == 0 || sync->window < 1)
    return std::nullopt;
  const double one = report.steps->target_seconds(1);
  const double c = report.steps->draft / one;
  const double v = report.steps->target_seconds(sync->window + 1) / one;
  const int window = int(std::lround(sync->window));
  return *gain / sampling::theory::sync_rate(sync->acceptance_rate, window, c, v);
}

std::optional<double> auto_over_best(const BenchReport& report) {
  std::optional<double> least;
  for (const SpeculationMode mode :
       {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap})
    if (const auto ratio = speed_ratio(report, SpeculationMode::automatic, mode))
      least = std::min(least.value_or(*ratio), *ratio);
  return least;
}

std::optional<double> rows_ratio(const BenchReport& report, int rows) {
  if (!report.steps)
    return std::nullopt;
  return report.steps->target_seconds(rows) / report.steps->target_seconds(1);
}

/// The host's share of a synchronous round.
std::optional<double> actor_overhead(const BenchReport& report) {
  const ModeResult* sync = find(report, SpeculationMode::sync);
  return sync ? std::optional(sync->overhead_share) : std::nullopt;
}

using Ratios = std::vector<std::pair<const char*, std::optional<double>>>;

Ratios all_ratios(const BenchReport& report) {
  using enum SpeculationMode;
  return {{"rows8_over_rows1", rows_ratio(report, 8)},
          {"rows16_over_rows1", rows_ratio(report, 16)},
          {"sync_over_off", speed_ratio(report, sync, off)},
          {"overlap_over_off", speed_ratio(report, overlap, off)},
          {"overlap_over_sync", speed_ratio(report, overlap, sync)},
          {"auto_over_best", auto_over_best(report)},
          {"sync_over_formula", sync_over_formula(report)},
          {"actor_overhead", actor_overhead(report)}};
}

boost::json::object steps_json(const StepTimes& steps) {
  boost::json::object target;
  for (const auto& [rows, seconds] : steps.target)
    target[std::to_string(rows)] = seconds;
  boost::json::object object{{"target_seconds", std::move(target)}};
  if (steps.draft > 0)
    object["draft_seconds"] = steps.draft;
  if (steps.prefill_512 > 0)
    object["prefill_512_seconds"] = steps.prefill_512;
  return object;
}

boost::json::object mode_json(const ModeResult& mode) {
  return {{"tokens_per_second", mode.tokens_per_second},
          {"spread", mode.spread},
          {"acceptance_rate", mode.acceptance_rate},
          {"tokens_per_round", mode.tokens_per_round},
          {"window", mode.window},
          {"lookahead_hit_rate", mode.lookahead_hit_rate},
          {"overlap_ratio", mode.overlap_ratio},
          {"time_to_first_token_seconds", mode.time_to_first_token_seconds},
          {"overhead_seconds_per_round", mode.overhead_seconds_per_round}};
}

std::string steps_text(const StepTimes& steps) {
  Table table({"step", "milliseconds"});
  for (const auto& [rows, seconds] : steps.target)
    table.add({fmt::format("target, {} row{}", rows, rows == 1 ? "" : "s"),
               fmt::format("{:.3f}", 1e3 * seconds)});
  if (steps.draft > 0)
    table.add({"draft, 1 row", fmt::format("{:.3f}", 1e3 * steps.draft)});
  if (steps.prefill_512 > 0)
    table.add({"target, prefill of 512", fmt::format("{:.3f}", 1e3 * steps.prefill_512)});
  return table.text();
}

std::string modes_text(const std::vector<ModeResult>& modes) {
  Table table({"mode", "tokens/s", "spread", "acceptance", "tokens/round", "window", "hits",
               "overlapped", "first token", "overhead/round"});
  for (const ModeResult& m : modes)
    table.add({to_string(m.mode), fmt::format("{:.1f}", m.tokens_per_second),
               fmt::format("{:.1f} %", 100 * m.spread), fmt::format("{:.3f}", m.acceptance_rate),
               fmt::format("{:.2f}", m.tokens_per_round), fmt::format("{:.1f}", m.window),
               fmt::format("{:.2f}", m.lookahead_hit_rate), fmt::format("{:.2f}", m.overlap_ratio),
               fmt::format("{:.1f} ms", 1e3 * m.time_to_first_token_seconds),
               fmt::format("{:.0f} us", 1e6 * m.overhead_seconds_per_round)});
  return table.text();
}

std::string model_line(const char* role, const ModelInfo& model) {
  return fmt::format("{:<7} {}: {:.2f} M parameters, {}, on {} ({})\n", role, model.name,
                     double(model.parameters) / 1e6, model.dtype, model.device, model.kernel);
}

} // namespace

boost::json::object report_json(const BenchReport& report) {
  boost::json::object object{{"target", model_json(report.target)}};
  if (report.draft)
    object["draft"] = model_json(*report.draft);
  object["machine"] = {{"cores", report.cores}};
  object["workload"] = {{"prompts", report.prompts},
                        {"max_tokens", report.max_tokens},
                        {"repetitions", report.repetitions},
                        {"simulated", report.simulated}};
  if (report.steps)
    object["steps"] = steps_json(*report.steps);
  auto& modes = object["modes"].emplace_object();
  for (const ModeResult& mode : report.modes)
    modes[to_string(mode.mode)] = mode_json(mode);
  auto& ratios = object["ratios"].emplace_object();
  for (const auto& [name, value] : all_ratios(report))
    if (value)
      ratios[name] = *value;
  return object;
}

std::string report_text(const BenchReport& report) {
  std::string text = model_line("target", report.target);
  if (report.draft)
    text += model_line("draft", *report.draft);
  text += fmt::format("{} prompts, {} tokens each, medians of {} repetitions{}\n\n", report.prompts,
                      report.max_tokens, report.repetitions,
                      report.simulated ? "; simulated time" : "");
  if (report.steps)
    text += steps_text(*report.steps) + "\n";
  text += modes_text(report.modes) + "\n";
  Table ratios({"ratio", ""});
  for (const auto& [name, value] : all_ratios(report))
    if (value)
      ratios.add({name, fmt::format("{:.3f}", *value)});
  return text + ratios.text();
}

} // namespace paceline::apps
