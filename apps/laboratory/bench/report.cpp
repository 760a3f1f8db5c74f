#include "apps/laboratory/bench/report.hpp"

#include "apps/console/field_names.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/output.hpp"
#include "apps/laboratory/bench/expectation.hpp"

#include <algorithm>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

std::optional<double> over_formula(const BenchReport& report, SpeculationMode mode) {
  const auto gain = speed_ratio(report, mode, SpeculationMode::off);
  const auto expected = expected_gain(report, mode);
  return gain && expected ? std::optional(*gain / *expected) : std::nullopt;
}

/// Published speed-ups for the profiles in use.
struct Published {
  double least = 0;
  double most = 0;
  const char* source = "";
};
std::optional<Published> published(const BenchReport& report) {
  if (report.target.device != "sim:chinchilla-70b" || !report.draft ||
      report.draft->device != "sim:chinchilla-4b")
    return std::nullopt;
  return Published{1.92, 2.46, "Chen et al. 2023, table 1 (XSum to HumanEval, K = 4)"};
}

std::optional<double> auto_over_best(const BenchReport& report) {
  std::optional<double> least;
  for (const SpeculationMode mode :
       {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap})
    if (const auto ratio = speed_ratio(report, SpeculationMode::automatic, mode))
      least = std::min(least.value_or(*ratio), *ratio);
  return least;
}

/// Returns a mode's speed, or without one the fastest mode's, over plain decoding without
/// quantization.
std::optional<double> over_not_quantized(const BenchReport& report,
                                         std::optional<SpeculationMode> mode = {}) {
  if (!report.not_quantized || !(report.not_quantized->tokens_per_second > 0))
    return std::nullopt;
  std::optional<double> most;
  for (const ModeResult& result : report.modes)
    if (!mode || result.mode == *mode)
      most = std::max(most.value_or(0),
                      result.tokens_per_second / report.not_quantized->tokens_per_second);
  return most;
}

std::optional<double> rows_ratio(const BenchReport& report, int rows) {
  if (!report.steps)
    return std::nullopt;
  return report.steps->target_seconds(rows) / report.steps->target_seconds(1);
}

/// Returns the host's share of a synchronous round.
std::optional<double> actor_overhead(const BenchReport& report) {
  const ModeResult* sync = find_mode(report, SpeculationMode::sync);
  return sync ? std::optional(sync->overhead_share) : std::nullopt;
}

std::optional<double> above_zero(double figure) {
  return figure > 0 ? std::optional(figure) : std::nullopt;
}

/// Returns the bytes of weights that a step of plain decoding reads in a second, over what the
/// machine can read.
std::optional<double> bandwidth_fraction(const BenchReport& report) {
  if (!report.steps || !(report.steps->weight_bytes > 0) ||
      !(report.steps->machine.read_bytes_per_second > 0))
    return std::nullopt;
  return report.steps->weight_bytes / report.steps->target_seconds(1) /
         report.steps->machine.read_bytes_per_second;
}

/// None with activations of int8: the peak is of bf16 products.
std::optional<double> prefill_fraction(const BenchReport& report) {
  if (!report.steps || report.steps->prefill_multiply_adds == 0 ||
      !report.target.activations.empty() || !(report.steps->machine.multiply_adds_per_second > 0))
    return std::nullopt;
  return report.steps->prefill_multiply_adds / report.steps->prefill_512 /
         report.steps->machine.multiply_adds_per_second;
}

/// Returns the slowest way to judge eight rows of a large vocabulary, over a target step of eight
/// rows.
std::optional<double> sampler_share(const BenchReport& report) {
  if (!report.steps || report.steps->sampler.empty())
    return std::nullopt;
  constexpr int vocabulary = 151'936;
  double slowest = 0;
  for (const SamplerTime& time : report.steps->sampler)
    if (time.vocabulary == vocabulary)
      slowest = std::max(slowest, time.seconds_per_row * sampler_rows);
  return slowest / report.steps->target_seconds(sampler_rows);
}

std::optional<double> peak_memory(const BenchReport& report) {
  double weights = double(report.target.weight_bytes);
  if (report.draft)
    weights += double(report.draft->weight_bytes - report.draft->shared_bytes);
  if (report.peak_bytes == 0 || weights == 0)
    return std::nullopt;
  return double(report.peak_bytes) / weights;
}

using Ratios = std::vector<std::pair<const char*, std::optional<double>>>;

Ratios all_ratios(const BenchReport& report) {
  using enum SpeculationMode;
  return {{"bandwidth_fraction", bandwidth_fraction(report)},
          {"rows8_over_rows1", rows_ratio(report, 8)},
          {"rows16_over_rows1", rows_ratio(report, 16)},
          {"sync_over_off", speed_ratio(report, sync, off)},
          {"overlap_over_off", speed_ratio(report, overlap, off)},
          {"overlap_over_sync", speed_ratio(report, overlap, sync)},
          {"auto_over_best", auto_over_best(report)},
          {"off_over_bf16_off", over_not_quantized(report, off)},
          {"best_over_bf16_off", over_not_quantized(report)},
          {"sync_over_formula", over_formula(report, sync)},
          {"overlap_over_formula", over_formula(report, overlap)},
          {"actor_overhead", actor_overhead(report)},
          {"step_cost_error", above_zero(report.step_cost_error)},
          {"prefill_fraction_of_peak", prefill_fraction(report)},
          {"peak_memory_over_weights", peak_memory(report)},
          {"sampler_over_rows8", sampler_share(report)}};
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

boost::json::object machine_json(const MachineFigures& machine) {
  return {{"cores", machine.cores},
          {"read_bytes_per_second", machine.read_bytes_per_second},
          {"multiply_adds_per_second", machine.multiply_adds_per_second},
          {"product_multiply_adds_per_second", machine.product_multiply_adds_per_second},
          {"barrier_seconds", machine.barrier_seconds}};
}

/// Returns {vocabulary: {rule: {warper: microseconds per row}}}.
boost::json::object sampler_json(const std::vector<SamplerTime>& times) {
  boost::json::object object;
  const auto below = [](boost::json::object & parent, const std::string& key) -> auto& {
    boost::json::value& child = parent[key];
    return child.is_object() ? child.get_object() : child.emplace_object();
  };
  for (const SamplerTime& time : times)
    below(below(object, std::to_string(time.vocabulary)), time.rule)[time.warper] =
        1e6 * time.seconds_per_row;
  return object;
}

boost::json::array products_json(const std::vector<gpu::cuda::ProductTimes>& products) {
  boost::json::array array;
  for (const auto& product : products)
    array.push_back({{"rows", product.rows},
                     {"outputs", product.outputs},
                     {"inputs", product.inputs},
                     {"seconds", product.ours},
                     {"cublas_seconds", product.cublas}});
  return array;
}

boost::json::object mode_json(const ModeResult& mode) {
  boost::json::object object{{"tokens_per_second", mode.tokens_per_second},
                             {"spread", mode.spread},
                             {"acceptance_rate", mode.acceptance_rate},
                             {"tokens_per_round", mode.tokens_per_round},
                             {"window", mode.window},
                             {"lookahead_hit_rate", mode.lookahead_hit_rate},
                             {"overlap_ratio", mode.overlap_ratio},
                             {"time_to_first_token_seconds", mode.time_to_first_token_seconds},
                             {"overhead_seconds_per_round", mode.overhead_seconds_per_round}};
  if (mode.mode == SpeculationMode::automatic)
    object["chosen"] = boost::json::value_from(mode.chosen);
  return object;
}

/// Returns a text such as "auto chose sync for 30 of 32 prompts, off for 2".
std::string chosen_text(const ModeResult& mode) {
  int prompts = 0;
  for (const auto& [name, count] : mode.chosen)
    prompts += count;
  std::string text;
  for (const auto& [name, count] : mode.chosen)
    text += text.empty()
                ? fmt::format("auto ended in {} for {} of {} prompts", name, count, prompts)
                : fmt::format(", {} for {}", name, count);
  return text + "\n";
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

std::string machine_text(const MachineFigures& machine) {
  Table table({"machine", ""});
  table.add({"cores", std::to_string(machine.cores)});
  table.add({"read, GB/s", fmt::format("{:.1f}", machine.read_bytes_per_second / 1e9)});
  table.add({"multiply-adds on registers, G/s",
             fmt::format("{:.0f}", machine.multiply_adds_per_second / 1e9)});
  table.add({"multiply-adds of a product, G/s",
             fmt::format("{:.0f}", machine.product_multiply_adds_per_second / 1e9)});
  table.add({"barrier, us", fmt::format("{:.2f}", 1e6 * machine.barrier_seconds)});
  return table.text();
}

std::string sampler_text(const std::vector<SamplerTime>& times) {
  Table table({"judging, us per row", "none", "top-p", "top-k", "penalties"});
  for (std::size_t i = 0; i < times.size(); i += 4) { // Warpers are the innermost index.
    std::vector<std::string> row{
        fmt::format("{}, vocabulary {}", times[i].rule, times[i].vocabulary)};
    for (std::size_t j = i; j < std::min(i + 4, times.size()); ++j)
      row.push_back(fmt::format("{:.0f}", 1e6 * times[j].seconds_per_row));
    table.add(std::move(row));
  }
  return table.text();
}

std::string products_text(const Result<std::vector<gpu::cuda::ProductTimes>>& products) {
  if (!products)
    return "products beside cuBLASLt's: skipped: " + with_options(products.error()).text() + "\n";
  Table table({"product", "us", "cuBLASLt, us", "of its speed"});
  for (const auto& product : *products)
    table.add({fmt::format("{} x {}, {} rows", product.outputs, product.inputs, product.rows),
               fmt::format("{:.1f}", 1e6 * product.ours),
               fmt::format("{:.1f}", 1e6 * product.cublas),
               fmt::format("{:.2f}", product.cublas / product.ours)});
  return table.text();
}

/// Returns what was measured of the target's device itself.
std::string device_text(const StepTimes& steps) {
  if (steps.products)
    return products_text(*steps.products) + "\n" + steps_text(steps) + "\n";
  return machine_text(steps.machine) + "\n" + steps_text(steps) + "\n" +
         sampler_text(steps.sampler) + "\n";
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
                     double(model.parameters) / 1e6, formats_text(model), model.device,
                     model.kernel);
}

} // namespace

boost::json::object report_json(const BenchReport& report) {
  boost::json::object object{{"target", model_json(report.target)}};
  if (report.draft)
    object["draft"] = model_json(*report.draft);
  object["machine"] = {{"cores", report.cores}};
  if (report.steps && report.steps->products) {
    const auto& products = *report.steps->products;
    if (products)
      object["products"] = products_json(*products);
    else
      object["products_skipped"] = with_options(products.error()).text();
  } else if (report.steps) {
    object["machine"] = machine_json(report.steps->machine);
    object["sampler_microseconds_per_row"] = sampler_json(report.steps->sampler);
  }
  object["workload"] = {{"prompts", report.prompts},         {"max_tokens", report.max_tokens},
                        {"temperature", report.temperature}, {"repetitions", report.repetitions},
                        {"simulated", report.simulated},     {"lookups", report.lookups}};
  if (report.steps)
    object["steps"] = steps_json(*report.steps);
  auto& modes = object["modes"].emplace_object();
  for (const ModeResult& mode : report.modes)
    modes[to_string(mode.mode)] = mode_json(mode);
  if (report.not_quantized)
    object["bf16_off"] = mode_json(*report.not_quantized);
  auto& ratios = object["ratios"].emplace_object();
  for (const auto& [name, value] : all_ratios(report))
    if (value)
      ratios[name] = *value;
  if (const auto paper = published(report))
    object["published"] = {{"sync_over_off", {paper->least, paper->most}},
                           {"source", paper->source}};
  return object;
}

std::string report_text(const BenchReport& report) {
  std::string text = model_line("target", report.target);
  if (report.draft)
    text += model_line("draft", *report.draft);
  text +=
      fmt::format("{} prompts, {} tokens each at temperature {}, medians of {} repetitions{}\n\n",
                  report.prompts, report.max_tokens, report.temperature, report.repetitions,
                  report.simulated ? "; simulated time" : "");
  if (!report.lookups.empty())
    text.insert(text.size() - 1, lookups_text(report.lookups) + "\n");
  if (report.steps)
    text += device_text(*report.steps);
  text += modes_text(report.modes);
  if (const ModeResult* automatic = find_mode(report, SpeculationMode::automatic))
    text += chosen_text(*automatic);
  text += "\n";
  if (report.not_quantized)
    text += fmt::format("off with weights of {}: {:.1f} tokens/s\n\n", report.target.dtype,
                        report.not_quantized->tokens_per_second);
  Table ratios({"ratio", ""});
  for (const auto& [name, value] : all_ratios(report))
    if (value)
      ratios.add({name, fmt::format("{:.3f}", *value)});
  text += ratios.text();
  if (const auto paper = published(report))
    text += fmt::format("\npublished sync_over_off: {} to {}, {}\n", paper->least, paper->most,
                        paper->source);
  return text;
}

} // namespace paceline::apps
