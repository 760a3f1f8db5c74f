// paceline plan: plans by simulation which models lie on which devices.
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/plan/file.hpp"
#include "apps/console/plan/shards.hpp"
#include "apps/console/validators.hpp"
#include "apps/laboratory/bench/workload.hpp"
#include "apps/laboratory/plan/measure.hpp"
#include "apps/laboratory/plan/report.hpp"
#include "placement/baselines.hpp"
#include "placement/limits.hpp"
#include "placement/planner.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace paceline::apps {
namespace {

/// Number of simulated runs that the figures come from.
constexpr int runs = 10;

struct Options {
  std::string file;
  std::string output;
  std::string svg_file;
  std::optional<std::uint64_t> seed;
  double time_limit = 60;
  double window = 10;
  int threads = int(std::max(1u, std::thread::hardware_concurrency()));
  int beam = 2;
  int max_pipeline = 8;
  std::optional<int> max_tensor;
  bool measure = false;
  bool json = false;
};

/// Share of the time limit by which the baselines must end. The search must end by the next one;
/// the rest is left for the comparison.
constexpr double baseline_share = 0.25;
constexpr double search_share = 0.85;

/// The bounds that end a search early, and which of them did.
class Bounds {
public:
  Bounds(double seconds, const std::atomic<bool>& interrupted)
      : limit_(seconds), interrupted_(interrupted) {}

  /// Whether work that must end at this share of the time has to end now.
  bool reached(double share) const { return interrupted_ || seconds() >= share * limit_; }
  bool cut_search() {
    const bool now = reached(search_share);
    if (now)
      cut_ = true;
    return now;
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  const char* ended() const {
    return interrupted_ ? "interrupted" : cut_ ? "time limit" : "complete";
  }

private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
  const double limit_;
  const std::atomic<bool>& interrupted_;
  std::atomic<bool> cut_ = false;
};

/// Placements that a plan is compared with, and may not be worse than.
struct Baselines {
  placement::Placement replicated;
  placement::Placement one_per_device;
  placement::Placement round_robin;
};

Baselines baselines(const Options& options, const placement::Problem& problem,
                    const placement::Workload& workload, const Bounds& bounds) {
  const auto stop = [&] { return bounds.reached(baseline_share); };
  return {placement::replicate_selectively(problem, workload, options.beam, stop).placement,
          placement::one_per_device(problem, workload), placement::round_robin(problem)};
}

/// Returns the option or, if it is not given, the most that `serve` can open.
int max_tensor(const Options& options, const plan::Input& input) {
  return options.max_tensor ? *options.max_tensor
                            : plan::shards_served(input, placement::ShapeBounds().tensor);
}

plan::Report search(const Options& options, const plan::Input& input,
                    const placement::Workload& workload, const Baselines& others, Bounds& bounds) {
  ProgressLine line;
  placement::PlanOptions how;
  how.seeds = {others.replicated, others.one_per_device, others.round_robin};
  how.validation = input.validation(runs);
  how.seed = input.seed;
  how.beam = options.beam;
  how.bounds = {options.max_pipeline, max_tensor(options, input)};
  how.threads = options.threads;
  how.stop = [&] { return bounds.cut_search(); };
  how.progress = [&](const std::string& part, double done) { line.show("planning " + part, done); };
  plan::Report report;
  report.selection = placement::plan(input.problem, workload, how);
  report.planning_seconds = bounds.seconds();
  report.ended = bounds.ended();
  return report;
}

/// Measures all placements with other traffic than the plan was made for, so that none is fitted to
/// it.
void compare(const Options& options, const plan::Input& input, const Baselines& others,
             const Bounds& bounds, plan::Report& report) {
  using namespace placement;
  const auto fresh = input.runs(runs);
  const Problem& problem = input.problem;
  const auto add = [&](const char* name, const Placement& placement) {
    report.lines.push_back({name, measure(problem, placement, fresh)});
  };
  report.runs = int(fresh.size());
  add("plan", report.selection.placement);
  add("selective replication", others.replicated);
  add("one model per device", others.one_per_device);
  add("round robin", others.round_robin);
  const plan::Line replacement{"replacement in windows", measure(fresh, [&](const Workload& run) {
                                 return replace_in_windows(problem, others.replicated, run,
                                                           options.window,
                                                           [&] { return bounds.reached(1); });
                               })};
  if (!bounds.reached(1))
    report.lines.push_back(replacement);
}

/// Reads the file and, with --measure, measures the costs of its models here.
Result<plan::Input> read_file(const Options& options) {
  if (!options.measure)
    return plan::read_input(options.file);
  return load_prompts(builtin_prompts()).and_then([&](const std::vector<std::string>& prompts) {
    ProgressLine line;
    plan::MeasureOptions how{options.max_pipeline,
                             options.max_tensor.value_or(placement::ShapeBounds().tensor),
                             fmt::format("{}", fmt::join(prompts, "\n")),
                             [&](const std::string& what, double done) { line.show(what, done); }};
    return plan::read_input(options.file,
                            {[&](const auto& what) { return plan::measure_costs(what, how); },
                             [&](const auto& all) { return plan::measure_contention(all, how); }});
  });
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  auto input = read_file(options);
  if (!input)
    return tl::unexpected(input.error());
  input->seed = options.seed.value_or(input->seed);
  std::atomic<bool> interrupted = false;
  const auto scope = interrupt.on_first([&] { interrupted = true; });
  const placement::Workload workload = input->workload();
  Bounds bounds(options.time_limit, interrupted);
  const Baselines others = baselines(options, input->problem, workload, bounds);
  plan::Report report = search(options, *input, workload, others, bounds);
  const placement::Placement& placement = report.selection.placement;
  compare(options, *input, others, bounds, report);
  auto written = write_if_named(
      options.output, [&] { return plan::to_text(plan::placement_file(*input, placement)); });
  if (written)
    written = write_if_named(options.svg_file,
                             [&] { return plan::placement_svg(*input, placement, workload); });
  if (!written)
    return tl::unexpected(written.error());
  const auto told = options.json ? print_json(plan::report_json(*input, report))
                                 : print_text(plan::report_text(*input, report));
  return told.map([&](int status) { return interrupted ? status_interrupted : status; });
}

constexpr const char* footer =
    R"(The file says which models there are, what they are asked for, and on which devices:

  [devices]
  count = 2             # or names = ["cuda:0", "cuda:1"]
  memory = "14G"
  [objective]
  scale = 5             # a request may take so many times its latency
  [[models]]
  name = "bert"
  copies = 2            # bert-0 and bert-1
  latency_ms = 395      # of a request on one device
  memory = "13.4G"
  rate = 1.5            # requests a second, each
  cv = 3                # bursty: 1 is Poisson

docs/placement.md explains every field. Ctrl-C ends the search: what has been found is shown.

Examples:
  paceline plan docs/examples/two-models.toml
  paceline plan models.toml -o placement.toml --svg placement.svg --time-limit 30)";

void add_search_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Search");
  app.add_option("--seed", options.seed, "Of traffic and search; default: the file's")
      ->check(whole_number(0, INT64_MAX))
      ->type_name("N");
  app.add_option("--time-limit", options.time_limit, "Seconds that search and comparison may take")
      ->check(number_above(0, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("-t,--threads", options.threads, "Threads of the search")
      ->check(whole_number(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--beam", options.beam, "Placements followed at once; more are slower")
      ->check(whole_number(2, 64))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--max-pipeline", options.max_pipeline, "Stages of a group, at most")
      ->check(whole_number(1, placement::limits::pipeline_max))
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--max-tensor", options.max_tensor,
         "Devices that share a stage, at most; default: 4, or what models with a checkpoint allow")
      ->check(whole_number(1, placement::limits::tensor_max))
      ->type_name("N");
  app.add_option("--window", options.window,
                 "Seconds between two placements of the baseline that replaces")
      ->check(number_above(0, 1e6))
      ->capture_default_str()
      ->type_name("S");
}

} // namespace

Command add_plan(CLI::App& program) {
  auto* app = program.add_subcommand("plan", "Place models on devices, by simulation");
  auto options = std::make_shared<Options>();
  app->add_option("file", options->file, "Models, devices and traffic (TOML)")
      ->required()
      ->type_name("FILE");
  add_search_options(*app, *options);
  app->add_flag("--measure", options->measure,
                "Measure models that have a checkpoint on the devices at hand");
  add_json_option(*app, options->json);
  app->add_option("-o,--output", options->output, "Write the placement to a file")
      ->check(writable_file())
      ->type_name("FILE");
  app->add_option("--svg", options->svg_file, "Draw devices by time, as an SVG")
      ->check(writable_file())
      ->type_name("FILE");
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
