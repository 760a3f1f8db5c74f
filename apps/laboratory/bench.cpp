// paceline bench: modes and steps, measured so that they can be repeated.
#include "apps/console/command.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "apps/laboratory/bench/compare.hpp"
#include "apps/laboratory/bench/machine.hpp"
#include "apps/laboratory/bench/modes.hpp"
#include "apps/laboratory/bench/report.hpp"
#include "apps/laboratory/bench/scale.hpp"
#include "apps/laboratory/bench/steps.hpp"
#include "apps/laboratory/bench/workload.hpp"
#include "apps/laboratory/bench_serve.hpp"
#include "gpu/cpu/topology.hpp"

#include <algorithm>
#include <memory>

namespace paceline::apps {
namespace {

constexpr int tokens_default = 128;

constexpr float temperature_default = 0.8f;

struct Options {
  EngineOptions engine;
  ModesPlan plan;
  std::string prompts_file; ///< Empty: the built-in ones.
  int prompts = 32;
  ScaleOptions scale;
  std::string compare; ///< File with an earlier report; empty: none.
  bool json = false;
};

/// Returns the modes that make sense: without a draft only one does.
std::vector<SpeculationMode> modes_of(const EngineOptions& engine) {
  using enum SpeculationMode;
  if (engine.drafters.empty())
    return {off};
  if (engine.speculation != automatic)
    return {engine.speculation};
  return {off, sync, overlap, automatic};
}

Result<ModesPlan> plan_of(const Options& options) {
  auto prompts =
      load_prompts(options.prompts_file.empty() ? builtin_prompts() : options.prompts_file);
  if (!prompts)
    return tl::unexpected(prompts.error());
  prompts->resize(std::min(prompts->size(), std::size_t(options.prompts)));
  ModesPlan plan = options.plan;
  plan.prompts = std::move(*prompts);
  plan.modes = modes_of(options.engine);
  return plan;
}

/// Opens the target without quantization and without a draft; none if the target is not quantized.
Result<std::optional<Session>> open_not_quantized(EngineOptions options) {
  if (!options.weights && !options.head_weights)
    return std::nullopt;
  options.weights = options.head_weights = options.draft_weights = std::nullopt;
  options.activations = Activations::bf16;
  options.drafters.clear();
  options.speculation = SpeculationMode::off;
  options.trace_file.clear();
  return open_session(std::move(options)).map([](Session session) {
    return std::optional<Session>(std::move(session));
  });
}

/// Measures the modes, on an engine of its own.
Result<void> run_modes(EngineOptions engine_options, const ModesPlan& plan, BenchReport& report) {
  engine_options.speculation = SpeculationMode::automatic; // Each request can then choose.
  const EngineOptions session_options = engine_options;
  auto session = open_session(std::move(engine_options));
  if (!session)
    return tl::unexpected(session.error());
  Engine& engine = session->engine;
  report.target = engine.target();
  report.draft = engine.draft_model();
  report.lookups = lookups_json(engine, "the same mode and repetition");
  Request warm = plan.request;
  warm.prompt = plan.prompts.front();
  if (const auto done = answer_of(engine, warm); !done)
    return tl::unexpected(done.error());
  if (!report.simulated)
    report.peak_bytes = peak_resident_bytes();
  auto beside = open_not_quantized(session_options);
  if (!beside)
    return tl::unexpected(beside.error());
  ProgressLine line;
  auto modes = measure_modes(engine, *beside ? &(*beside)->engine : nullptr, plan,
                             [&](double done) { line.show("Measuring", done); });
  if (!modes)
    return tl::unexpected(modes.error());
  if (*beside) {
    report.not_quantized = modes->back();
    modes->pop_back();
  }
  report.modes = std::move(*modes);
  report.step_cost_error = engine.metrics().step_cost_error;
  report.traced = close_engine(engine);
  return {};
}

bool is_divided(const ModelInfo& model) {
  return !model.stages.empty() || model.shards > 1;
}

Result<BenchReport> measure(const Options& options, Interrupt& interrupt) {
  const auto plan = plan_of(options);
  if (!plan)
    return tl::unexpected(plan.error());
  EngineOptions engine = options.engine;
  const auto folder = scale_models(options.scale, engine, interrupt);
  if (!folder)
    return tl::unexpected(folder.error());
  BenchReport report;
  report.simulated = simulated(engine);
  report.cores = int(gpu::cpu::usable_cores().size());
  report.prompts = int(plan->prompts.size());
  report.repetitions = plan->repetitions;
  report.max_tokens = *plan->request.max_tokens;
  report.temperature = *plan->request.sampling.temperature;
  if (const auto ran = run_modes(engine, *plan, report); !ran)
    return tl::unexpected(ran.error());
  // The steps of a simulated device are what its profile says, and those of a divided model do not
  // belong to one device.
  if (!report.simulated && !is_divided(report.target) &&
      !(report.draft && is_divided(*report.draft))) {
    auto steps = measure_steps(report.target, report.draft, engine);
    if (!steps)
      return tl::unexpected(steps.error());
    report.steps = std::move(*steps);
  }
  name_scaled(report.target, options.engine.target, options.scale.target);
  if (report.draft)
    name_scaled(*report.draft, options.engine.drafters.back(), options.scale.draft);
  return report;
}

/// Prints the report. before: an earlier report to compare with; empty: none.
Result<int> print_report(const BenchReport& report, const boost::json::object& before, bool json) {
  boost::json::object now = report_json(report);
  if (before.empty())
    return json ? print_json(now) : print_text(report_text(report));
  if (!json)
    return print_text(report_text(report) + "\n" + comparison_text(before, now));
  now["now_over_before"] = compare_reports(before, now);
  now["same_lookups"] = same_lookups(before, now);
  return print_json(now);
}

Result<int> run(const Options& options, Interrupt& interrupt) {
  boost::json::object before;
  if (!options.compare.empty()) {
    auto earlier = read_report(options.compare);
    if (!earlier)
      return tl::unexpected(earlier.error());
    before = std::move(*earlier);
  }
  const auto report = measure(options, interrupt);
  if (!report)
    return tl::unexpected(report.error());
  const auto printed = print_report(*report, before, options.json);
  return report->traced.and_then([&] { return printed; });
}

/// Runs a command within `bench`. own: options of `bench`, which mean nothing there.
Result<int> run_within(const Command& command, const std::vector<CLI::Option*>& own,
                       Interrupt& interrupt) {
  for (const CLI::Option* option : own)
    if (option->count() > 0)
      return fail(ErrorCode::invalid_argument,
                  option->get_name() + " stands before " + command.app->get_name(),
                  "give the options of bench serve after it");
  return command.run(interrupt);
}

void add_workload_options(CLI::App& app, Options& options) {
  app.option_defaults()->group("Workload");
  app.add_option("--prompts", options.prompts_file, "JSON file; default: the built-in 32")
      ->type_name("FILE");
  app.add_option("--num-prompts", options.prompts, "Take the first N")
      ->capture_default_str()
      ->check(whole_number(1, 1'000'000))
      ->type_name("N");
  app.add_option("--repetitions", options.plan.repetitions, "Runs of each mode, in turn")
      ->capture_default_str()
      ->check(whole_number(1, 1000))
      ->type_name("N");
}

constexpr const char* footer = R"(Examples:
  paceline bench --json > bench.json
  paceline bench --temperature 0 --window 4 --num-prompts 8
  paceline bench --scale 350m --draft-scale 9m --compare bench.json
  paceline bench --device sim:chinchilla-70b --draft-device sim:chinchilla-4b

Each prompt is completed alone, its end-of-text ignored, with a seed of its own under the
rejection rule (--verify chooses another); --speculation measures one mode only. Spread is
(largest - smallest) / median of the repetitions. Simulated devices run on virtual time.

--scale makes the target a larger model of the same distribution: full-size matrices, of which all
but the original's part add nothing. --scale moe-1b makes it a mixture of 16 experts, two for a
token. It takes twice its size on disk and in memory for a moment.
--keep-scaled leaves it there, for `-m DIR/target -d DIR/draft` and for other programs.)";

} // namespace

Command add_bench(CLI::App& program) {
  auto* app = program.add_subcommand("bench", "Measure modes and steps, repeatably");
  auto options = std::make_shared<Options>();
  options->plan.repetitions = 3;
  options->plan.request.max_tokens = tokens_default;
  options->plan.request.ignore_eos = true;
  options->plan.request.verify = VerifyRule::rejection;
  options->plan.request.sampling.temperature = temperature_default;
  add_workload_options(*app, *options);
  add_model_options(*app, options->engine);
  add_batching_options(*app, options->engine);
  add_scale_options(*app, options->scale);
  add_speculation_options(*app, options->engine, options->plan.request);
  add_sampling_options(*app, options->plan.request);
  add_trace_option(*app, options->engine);
  add_json_option(*app, options->json);
  app->add_option("--compare", options->compare, "Show an earlier run's --json beside this one")
      ->type_name("FILE");
  app->footer(footer);
  const std::vector<CLI::Option*> own = app->get_options();
  const Command serve = add_bench_serve(*app);
  return {app, [options, own, serve](Interrupt& interrupt) {
            return serve.app->parsed() ? run_within(serve, own, interrupt)
                                       : run(*options, interrupt);
          }};
}

} // namespace paceline::apps
