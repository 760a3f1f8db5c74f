// paceline theory: what the papers' formulas say to a pair, a device and a memory.
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/validators.hpp"
#include "apps/laboratory/bench/run.hpp"
#include "apps/laboratory/theory/measurement.hpp"
#include "apps/laboratory/theory/report.hpp"
#include "base/clock.hpp"
#include "gpu/sim/profile.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {
namespace {

/// Less than `bench` takes, since one figure of each mode is enough here.
constexpr int prompts_default = 8;
constexpr int repetitions_default = 1;

struct Options {
  BenchOptions bench;
  theory::Quantities quantities;
  double row_cost = 0;
  std::optional<double> draft_operations; ///< None: as much as a draft step costs in time.
  std::vector<std::string> hardware;
  std::optional<double> peak;        ///< In 10^12 operations a second.
  std::optional<double> memory_rate; ///< In 10^9 bytes a second.
  std::optional<std::size_t> memory;
  std::optional<std::size_t> weights;
  std::optional<std::size_t> token;
  int length = 1024;
  std::string svg_file;
  bool measure = false;
  bool json = false;
};

std::string sheet_names() {
  std::string names;
  for (const auto& sheet : gpu::sim::data_sheets())
    names += (names.empty() ? "" : "|") + std::string(sheet.name);
  return names;
}

/// Returns the devices whose rooflines are shown: those named, or all that are known.
std::vector<gpu::sim::DataSheet> sheets_of(const Options& options) {
  std::vector<gpu::sim::DataSheet> sheets;
  for (const std::string& name : options.hardware)
    sheets.push_back(*gpu::sim::find_data_sheet(name));
  if (options.peak)
    sheets.push_back({"given", *options.peak * 1e12, *options.memory_rate * 1e9, 0, "as given"});
  return sheets.empty() ? gpu::sim::data_sheets() : sheets;
}

/// Returns every simulated device among those of target and draft.
Result<std::vector<theory::SimulatedDevice>> simulated_of(const EngineOptions& engine) {
  constexpr std::string_view sim = "sim:";
  std::vector<std::string> devices = engine.devices;
  devices.insert(devices.end(), engine.draft_devices.begin(), engine.draft_devices.end());
  std::vector<theory::SimulatedDevice> simulated;
  for (const std::string& device : devices) {
    if (!device.starts_with(sim))
      continue;
    auto profile = gpu::sim::parse_profile(std::string_view(device).substr(sim.size()));
    if (!profile)
      return tl::unexpected(profile.error());
    simulated.push_back({device, std::move(*profile)});
  }
  return simulated;
}

/// Returns the memory to fill: the one given, or that of the only hardware named.
std::optional<double> memory_of(const Options& options) {
  if (options.memory)
    return double(*options.memory);
  if (options.hardware.size() == 1)
    return gpu::sim::find_data_sheet(options.hardware.front())->memory_bytes;
  return std::nullopt;
}

Result<std::optional<theory::Fit>> fit_of(const Options& options) {
  const auto memory = memory_of(options);
  if (!memory)
    return std::nullopt;
  const int chunk = options.bench.engine.prefill_chunk;
  const auto fit = [&](const theory::ModelBytes& model) {
    return std::optional(theory::Fit{*memory, model, options.length, chunk});
  };
  if (options.weights)
    return fit({double(*options.weights), double(*options.token)});
  return theory::model_bytes(options.bench.engine).map(fit);
}

/// Fills in the quantities that were given.
void assume(const Options& options, theory::Report& report) {
  report.quantities = options.quantities;
  report.quantities.draft_operations =
      options.draft_operations.value_or(options.quantities.draft_cost);
  report.row_cost = options.row_cost;
  report.quantities.verify = [cost = options.row_cost](int window) { return 1 + window * cost; };
  report.gains = theory::sweep(report.quantities, sampling::limits::window_max);
}

/// Fills in the quantities of the models at hand.
Result<void> measure(const Options& options, Interrupt& interrupt, theory::Report& report) {
  auto measured = run_bench(options.bench, interrupt);
  if (!measured)
    return tl::unexpected(measured.error());
  auto quantities = theory::quantities_of(*measured);
  if (!quantities)
    return tl::unexpected(quantities.error());
  quantities->way = options.quantities.way;
  report.quantities = std::move(*quantities);
  report.row_cost = report.quantities.verify(1) - 1;
  report.gains = theory::sweep(report.quantities, theory::longest_window(*measured));
  report.here = theory::measured_sheet(*measured);
  report.measured = std::move(*measured);
  return {};
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  theory::Report report;
  report.sheets = sheets_of(options);
  auto simulated = simulated_of(options.bench.engine);
  if (!simulated)
    return tl::unexpected(simulated.error());
  report.simulated = std::move(*simulated);
  report.largest = {options.bench.engine.max_num_seqs, options.length,
                    options.bench.engine.prefill_chunk};
  if (options.weights)
    report.sixteen_bits = {double(*options.weights), double(*options.token)};
  auto fit = fit_of(options);
  if (!fit)
    return tl::unexpected(fit.error());
  report.fit = *fit;
  if (!options.measure)
    assume(options, report);
  else if (auto measured = measure(options, interrupt, report); !measured)
    return tl::unexpected(measured.error());
  report.window = std::min(options.bench.engine.window.value_or(0), int(report.gains.size()));
  if (auto drawn = write_if_named(options.svg_file, [&] { return theory::theory_svg(report); });
      !drawn)
    return tl::unexpected(drawn.error());
  return options.json ? print_json(theory::report_json(report))
                      : print_text(theory::report_text(report));
}

constexpr const char* footer = R"(Examples:
  paceline theory --acceptance 0.7 --draft-cost 0.02 --window 5
  paceline theory --svg theory.svg
  paceline theory --measure -m TARGET -d DRAFT
  paceline theory --hardware a6000 --weight-size 24G --token-size 800K --length 1024
  paceline theory --measure --device sim:chinchilla-70b --draft-device sim:chinchilla-4b
  paceline theory --device sim:llama-13b-a6000 --prefill-chunk 256 --max-num-seqs 18

Speed is over plain decoding; --window K names one window, where otherwise each mode has its best.
--measure runs what bench measures and sets the formulas beside it. docs/theory.md derives them.
A simulated device shows what tokens take in each phase, and --weight-size, as of 16 bits, how many
operations they need for each byte, in batches of up to --max-num-seqs.)";

/// Adds the quantities that are measured with --measure.
void add_quantities(CLI::App& app, Options& options, CLI::Option* measure) {
  app.option_defaults()->group("Speculation by the formulas");
  theory::Quantities& q = options.quantities;
  app.add_option("-a,--acceptance", q.acceptance, "Accepted tokens over judged ones")
      ->check(number(0, 1))
      ->capture_default_str()
      ->excludes(measure)
      ->type_name("A");
  app.add_option("--draft-cost", q.draft_cost, "Time of a draft step over a target step")
      ->check(number(0, 100))
      ->capture_default_str()
      ->excludes(measure)
      ->type_name("C");
  app.add_option("--draft-operations", options.draft_operations,
                 "Operations of the draft over the target's; default: as --draft-cost")
      ->check(number(0, 100))
      ->excludes(measure)
      ->type_name("X");
  app.add_option("--row-cost", options.row_cost,
                 "What each further row adds to a target step of one row")
      ->check(number(0, 1))
      ->capture_default_str()
      ->excludes(measure)
      ->type_name("X");
  app.add_option("--guessed", q.guessed, "Share of the rejections that have a fork")
      ->check(number(0, 1))
      ->capture_default_str()
      ->excludes(measure)
      ->type_name("X");
  app.add_option("--round-trip", q.way.round_trip, "Way to the draft and back, in target steps")
      ->check(number(0, 1000))
      ->capture_default_str()
      ->type_name("R");
  app.add_option("--stages", q.way.stages, "Stages of the target, with windows in flight in all")
      ->check(whole_number(1, 1024))
      ->capture_default_str()
      ->type_name("S");
}

void add_hardware(CLI::App& app, Options& options) {
  app.option_defaults()->group("Device and memory");
  const auto known = [](const std::string& name) {
    return gpu::sim::find_data_sheet(name) ? std::string() : not_acceptable(name, sheet_names());
  };
  app.add_option("--hardware", options.hardware, "Show the roofline of this; default: all known")
      ->allow_extra_args(false)
      ->check(CLI::Validator(known, ""))
      ->type_name(sheet_names());
  auto* peak = app.add_option("--peak", options.peak, "Another device's 10^12 operations a second")
                   ->check(number_above(0, 1e9))
                   ->type_name("X");
  auto* rate = app.add_option("--memory-rate", options.memory_rate, "And its 10^9 bytes a second")
                   ->check(number_above(0, 1e9))
                   ->type_name("X");
  peak->needs(rate);
  rate->needs(peak);
  app.add_option("--memory", options.memory,
                 "Count the sequences that fit; default: the memory of one --hardware")
      ->transform(memory_size())
      ->type_name("SIZE");
  app.add_option("--length", options.length, "Tokens of each sequence")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  auto* weights = app.add_option("--weight-size", options.weights,
                                 "Size of the weights; default: --model's, as it would be loaded")
                      ->transform(memory_size())
                      ->type_name("SIZE");
  auto* token = app.add_option("--token-size", options.token, "Keys and values of a token")
                    ->transform(memory_size())
                    ->type_name("SIZE");
  weights->needs(token);
  token->needs(weights);
}

} // namespace

Command add_theory(CLI::App& program) {
  auto* app = program.add_subcommand("theory", "What speculation should bring, by the formulas");
  auto options = std::make_shared<Options>();
  BenchOptions& bench = options->bench;
  bench.prompts = prompts_default;
  bench.plan.repetitions = repetitions_default;
  options->quantities.guessed =
      0.61; // As the demo pair's draft guesses (docs/results/pipeline.md).
  auto* measure = app->add_flag("--measure", options->measure,
                                "Measure the quantities of the models on this machine");
  add_quantities(*app, *options, measure);
  add_hardware(*app, *options);
  add_workload_options(*app, bench);
  add_model_options(*app, bench.engine);
  add_scale_options(*app, bench.scale);
  add_speculation_options(*app, bench.engine, bench.plan.request);
  add_json_option(*app, options->json);
  app->add_option("--svg", options->svg_file, "Draw speed over acceptance, draft cost and window")
      ->check(writable_file())
      ->type_name("FILE");
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
