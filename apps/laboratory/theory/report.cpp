#include "apps/laboratory/theory/report.hpp"

#include "apps/console/output.hpp"
#include "apps/laboratory/bench/expectation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <utility>

namespace paceline::apps::theory {
namespace {

/// Weights of 16 bits, and of the microscaling formats of 8, 6 and 4 with a scale for 32 of them.
constexpr std::array weight_bits{16.0, 8.25, 6.25, 4.25};

constexpr std::array measured_modes{SpeculationMode::sync, SpeculationMode::overlap};

std::string two_digits(double number) {
  return fmt::format("{:.2f}", number);
}

/// Returns the windows that a table shows: short ones, a few long ones, those asked for and the
/// best.
bool shown(const Report& report, const WindowGain& gain) {
  const int k = gain.window;
  return k <= 8 || k == 12 || k == 16 || k == 24 || k == int(report.gains.size()) ||
         k == report.window || std::ranges::any_of(modes, [&](const Mode& mode) {
           return best_of(report.gains, mode.rate).window == k;
         });
}

std::string assumptions_text(const Report& report) {
  const Quantities& q = report.quantities;
  std::string text = fmt::format(
      "Of the judged tokens {:.3g} are accepted, of the rejections {:.3g} have a fork.\n"
      "Over a target step of one row a draft step costs {:.3g}, and a second row {:.3g}",
      q.acceptance, q.guessed, q.draft_cost, report.row_cost);
  if (q.way.round_trip > 0)
    text += fmt::format(",\nand the way to the draft and back {:.3g}", q.way.round_trip);
  if (q.way.stages > 1)
    text += fmt::format("; the target has {} stages", q.way.stages);
  return text + ".\nSpeed over plain decoding:\n";
}

std::string windows_text(const Report& report) {
  std::vector<std::string> headings{"window", "tokens a round", "operations"};
  for (const Mode& mode : modes)
    headings.emplace_back(mode.name);
  Table table(std::move(headings));
  for (const WindowGain& gain : report.gains)
    if (shown(report, gain)) {
      std::vector<std::string> row{std::to_string(gain.window), two_digits(gain.tokens),
                                   two_digits(gain.operations)};
      for (const Mode& mode : modes)
        row.push_back(two_digits(gain.*mode.rate) +
                      (best_of(report.gains, mode.rate).window == gain.window ? "*" : " "));
      table.add(std::move(row));
    }
  return table.text() + "* the best window\n";
}

/// Returns the window that was asked for, or the best of `sync`.
const WindowGain& chosen(const Report& report) {
  return report.window > 0 ? report.gains[std::size_t(report.window - 1)]
                           : best_of(report.gains, &WindowGain::sync);
}

double least_acceptance(const Report& report) {
  return acceptance_for(report.quantities, int(report.gains.size()), 1);
}

std::string break_even_text(const Report& report) {
  const WindowGain& gain = chosen(report);
  return fmt::format(
      "sync pays where more than {:.3g} are accepted; with a window of {}, where a draft step "
      "costs less than {:.3g}.\n",
      least_acceptance(report), gain.window, gain.break_even_cost);
}

/// reached: the rows with what programs reach of the figures; empty: these are reached.
std::vector<std::string> roofline_row(const gpu::sim::DataSheet& sheet,
                                      const std::string& reached) {
  std::vector<std::string> row{sheet.name,
                               fmt::format("{:.4g}", sheet.operations_per_second / 1e12),
                               fmt::format("{:.4g}", sheet.bytes_per_second / 1e9)};
  for (const double bits : weight_bits)
    row.push_back(fmt::format("{:.0f}", sheet.balanced_rows(bits)));
  row.push_back(reached);
  return row;
}

std::string roofline_text(const Report& report) {
  Table table({"device", "T operations/s", "GB/s", "16 bits", "mx 8", "mx 6", "mx 4",
               "16 bits, as reached"});
  for (const auto& sheet : report.sheets)
    table.add(
        roofline_row(sheet, fmt::format("{:.0f}", sheet.reached().balanced_rows(weight_bits[0]))));
  if (report.here)
    table.add(roofline_row(*report.here, ""));
  std::string text = "Rows below which a step is bound by memory, by the bits of a weight:\n" +
                     table.text() +
                     fmt::format("as reached: {:.0f} % of the memory rate and {:.0f} % of the "
                                 "operations, as simulated devices assume\n",
                                 100 * gpu::sim::memory_share, 100 * gpu::sim::peak_share);
  for (const SimulatedDevice& device : report.simulated)
    text += fmt::format("{}: {:.0f} rows\n", device.name, device.profile.balanced_rows());
  return text;
}

std::string fit_text(const Fit& fit) {
  const std::int64_t sequences = fit.sequences();
  std::string text = fmt::format("{} hold weights of {} and {} of {} tokens, of {} each.\n",
                                 human_bytes(std::uint64_t(fit.memory)),
                                 human_bytes(std::uint64_t(fit.model.weights)),
                                 counted(std::uint64_t(sequences), "sequence"), fit.length,
                                 human_bytes(std::uint64_t(fit.model.token)));
  if (sequences > 1)
    text += fmt::format("Chunks of {} are best used with {:.3g} tokens of prompts for each one of "
                        "an answer.\n",
                        fit.chunk, best_prompt_share(fit.chunk, sequences));
  return text;
}

/// Returns the batches that phases are shown for, of at least so many sequences: all, or those of a
/// table.
std::vector<Batch> batches(const Report& report, int least, bool all) {
  std::vector<Batch> shown;
  const int most = report.largest.sequences;
  for (int sequences = least; sequences <= most; ++sequences)
    if (all || sequences == most || std::has_single_bit(unsigned(sequences))) {
      shown.push_back(report.largest);
      shown.back().sequences = sequences;
    }
  return shown;
}

/// Two sequences are the fewest of which one can ride along.
constexpr int fewest_riding = 2;

std::string phases_text(const Report& report, const SimulatedDevice& device) {
  Table table({"batch", "prompt", "decode", "riding along", "decode over it"});
  for (const Batch& batch : batches(report, fewest_riding, false)) {
    const PhaseTimes times = phase_times(device.profile, batch);
    table.add({std::to_string(batch.sequences), fmt::format("{:.3f}", times.prefill * 1e3),
               fmt::format("{:.2f}", times.decode * 1e3), fmt::format("{:.2f}", times.riding * 1e3),
               two_digits(times.decode / times.riding)});
  }
  return fmt::format("Milliseconds of a token on {}, contexts of {}, chunks of {}:\n", device.name,
                     report.largest.length, report.largest.chunk) +
         table.text();
}

std::string intensity_text(const Report& report) {
  Table table({"batch", "prompt", "decode", "decode beside a chunk"});
  for (const Batch& batch : batches(report, 1, false)) {
    const Intensity of = intensity_of(*report.sixteen_bits, batch);
    table.add({std::to_string(batch.sequences), fmt::format("{:.0f}", of.prefill),
               fmt::format("{:.1f}", of.decode), fmt::format("{:.0f}", of.hybrid)});
  }
  return fmt::format("Operations for each byte read, contexts of {}, chunks of {}:\n",
                     report.largest.length, report.largest.chunk) +
         table.text();
}

boost::json::array phases_json(const Report& report, const SimulatedDevice& device) {
  boost::json::array all;
  for (const Batch& batch : batches(report, fewest_riding, true)) {
    const PhaseTimes times = phase_times(device.profile, batch);
    all.push_back({{"sequences", batch.sequences},
                   {"prefill_ms", times.prefill * 1e3},
                   {"decode_ms", times.decode * 1e3},
                   {"riding_ms", times.riding * 1e3},
                   {"decode_over_riding", times.decode / times.riding}});
  }
  return all;
}

boost::json::array intensity_json(const Report& report) {
  boost::json::array all;
  for (const Batch& batch : batches(report, 1, true)) {
    const Intensity of = intensity_of(*report.sixteen_bits, batch);
    all.push_back({{"sequences", batch.sequences},
                   {"prefill", of.prefill},
                   {"decode", of.decode},
                   {"hybrid", of.hybrid}});
  }
  return all;
}

std::string measured_text(const BenchReport& measured) {
  Table table({"mode", "window", "accepted", "speed over off", "by the formula", "of it"});
  for (const SpeculationMode mode : measured_modes) {
    const ModeResult* figures = find_mode(measured, mode);
    const auto gain = speed_ratio(measured, mode, SpeculationMode::off);
    if (!figures || !gain)
      continue;
    const auto expected = expected_gain(measured, mode);
    table.add({to_string(mode), fmt::format("{:.1f}", figures->window),
               fmt::format("{:.3f}", figures->acceptance_rate), two_digits(*gain),
               expected ? two_digits(*expected) : "-",
               expected ? two_digits(*gain / *expected) : "-"});
  }
  return fmt::format("Measured on {} and {}:\n", measured.target.device, measured.draft->device) +
         table.text() +
         (measured.simulated ? ""
                             : "overlap has a formula only where each model has a device of "
                               "its own\n");
}

boost::json::object window_json(const WindowGain& gain) {
  boost::json::object object{{"window", gain.window},
                             {"verify", gain.verify},
                             {"tokens_per_round", gain.tokens},
                             {"operations", gain.operations},
                             {"break_even_cost", gain.break_even_cost}};
  for (const Mode& mode : modes)
    object[mode.key] = gain.*mode.rate;
  return object;
}

boost::json::object sheet_json(const gpu::sim::DataSheet& sheet) {
  boost::json::object rows;
  for (const double bits : weight_bits)
    rows[fmt::format("{:g}", bits)] = sheet.balanced_rows(bits);
  return {{"operations_per_second", sheet.operations_per_second},
          {"bytes_per_second", sheet.bytes_per_second},
          {"rows", std::move(rows)},
          {"source", sheet.source}};
}

boost::json::object roofline_json(const Report& report) {
  boost::json::object object;
  for (const auto& sheet : report.sheets) {
    boost::json::object one = sheet_json(sheet);
    one["rows_reached"] = sheet.reached().balanced_rows(weight_bits[0]);
    object[sheet.name] = std::move(one);
  }
  if (report.here)
    object[report.here->name] = sheet_json(*report.here);
  for (const SimulatedDevice& device : report.simulated)
    object[device.name] = {{"rows_reached", device.profile.balanced_rows()}};
  return object;
}

boost::json::object fit_json(const Fit& fit) {
  const std::int64_t sequences = fit.sequences();
  boost::json::object object{{"memory_bytes", fit.memory},
                             {"weight_bytes", fit.model.weights},
                             {"kv_bytes_per_token", fit.model.token},
                             {"length", fit.length},
                             {"sequences", sequences}};
  if (sequences > 1)
    object["prompt_tokens_per_output_token"] = best_prompt_share(fit.chunk, sequences);
  return object;
}

boost::json::object measured_json(const BenchReport& measured) {
  boost::json::object object;
  for (const SpeculationMode mode : measured_modes) {
    const ModeResult* figures = find_mode(measured, mode);
    const auto gain = speed_ratio(measured, mode, SpeculationMode::off);
    if (!figures || !gain)
      continue;
    boost::json::object one{{"window", figures->window},
                            {"acceptance_rate", figures->acceptance_rate},
                            {"speed_over_off", *gain}};
    if (const auto expected = expected_gain(measured, mode))
      one["by_formula"] = *expected;
    object[to_string(mode)] = std::move(one);
  }
  return object;
}

} // namespace

std::string report_text(const Report& report) {
  std::string text = assumptions_text(report) + windows_text(report) + break_even_text(report);
  if (report.measured)
    text += "\n" + measured_text(*report.measured);
  text += "\n" + roofline_text(report);
  if (report.fit)
    text += "\n" + fit_text(*report.fit);
  for (const SimulatedDevice& device : report.simulated)
    text += "\n" + phases_text(report, device);
  if (report.sixteen_bits)
    text += "\n" + intensity_text(report);
  return text;
}

boost::json::object report_json(const Report& report) {
  const Quantities& q = report.quantities;
  boost::json::array windows;
  for (const WindowGain& gain : report.gains)
    windows.push_back(window_json(gain));
  boost::json::object best;
  boost::json::object phases;
  for (const Mode& mode : modes)
    best[mode.key] = best_of(report.gains, mode.rate).window;
  boost::json::object object{{"acceptance", q.acceptance},
                             {"draft_cost", q.draft_cost},
                             {"row_cost", report.row_cost},
                             {"guessed", q.guessed},
                             {"round_trip", q.way.round_trip},
                             {"stages", q.way.stages},
                             {"windows", std::move(windows)},
                             {"best_window", std::move(best)},
                             {"break_even_acceptance", least_acceptance(report)},
                             {"roofline", roofline_json(report)}};
  if (report.fit)
    object["fit"] = fit_json(*report.fit);
  for (const SimulatedDevice& device : report.simulated)
    phases[device.name] = phases_json(report, device);
  object["phases"] = std::move(phases);
  if (report.sixteen_bits)
    object["intensity"] = intensity_json(report);
  if (report.measured)
    object["measured"] = measured_json(*report.measured);
  return object;
}

} // namespace paceline::apps::theory
