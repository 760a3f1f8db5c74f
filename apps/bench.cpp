// paceline bench: modes and steps, measured so that they can be repeated.
#include "apps/bench/modes.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/steps.hpp"
#include "apps/bench/workload.hpp"
#include "apps/command.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "apps/session.hpp"
#include "apps/terminal.hpp"
#include "apps/validators.hpp"
#include "gpu/cpu/topology.hpp"
#include "models/installed.hpp"

#include <algorithm>
#include <memory>

namespace paceline::apps {
namespace {

constexpr int tokens_default = 128;

struct Options {
  EngineOptions engine;
  ModesPlan plan;
  std::string prompts_file; ///< Empty: the built-in ones.
  int prompts = 32;
  bool json = false;
};

std::string builtin_prompts() {
  const auto installed = models::installed_data("prompts.json");
  return installed ? installed->string() : PACELINE_BENCH_PROMPTS;
}

/// The modes that make sense: without a draft only one does.
std::vector<SpeculationMode> modes_of(const EngineOptions& engine) {
  using enum SpeculationMode;
  if (engine.draft.empty())
    return {off};
  if (engine.speculation != automatic)
    return {engine.speculation};
  return {off, sync, overlap, automatic};
}

/// Speculation is on for the engine as a whole, so that each request can choose.
Result<Session> open_for(const Options& options) {
  EngineOptions engine = options.engine;
  engine.speculation = SpeculationMode::automatic;
  return open_session(std::move(engine));
}

Result<std::vector<std::string>> choose_prompts(const Options& options) {
  auto prompts =
      load_prompts(options.prompts_file.empty() ? builtin_prompts() : options.prompts_file);
  if (prompts)
    prompts->resize(std::min(prompts->size(), std::size_t(options.prompts)));
  return prompts;
}

Result<BenchReport> measure(const Options& options) {
  ModesPlan plan = options.plan;
  auto prompts = choose_prompts(options);
  if (!prompts)
    return tl::unexpected(prompts.error());
  plan.prompts = std::move(*prompts);
  plan.modes = modes_of(options.engine);
  auto session = open_for(options);
  if (!session)
    return tl::unexpected(session.error());
  Engine& engine = session->engine;
  BenchReport report{.target = engine.target(),
                     .draft = engine.draft(),
                     .simulated = simulated(options.engine),
                     .cores = int(gpu::cpu::usable_cores().size()),
                     .steps = {},
                     .modes = {},
                     .prompts = int(plan.prompts.size()),
                     .repetitions = plan.repetitions,
                     .max_tokens = *plan.request.max_tokens};
  ProgressLine line;
  auto modes = measure_modes(engine, plan, [&](double done) { line.show("Measuring", done); });
  if (!modes)
    return tl::unexpected(modes.error());
  report.modes = std::move(*modes);
  if (report.simulated)
    return report; // a profile's steps are what it says
  auto steps = measure_steps(report.target, report.draft, options.engine);
  if (!steps)
    return tl::unexpected(steps.error());
  report.steps = std::move(*steps);
  return report;
}

Result<int> run(const Options& options) {
  const auto report = measure(options);
  if (!report)
    return tl::unexpected(report.error());
  return options.json ? print_json(report_json(*report)) : print_text(report_text(*report));
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
  paceline bench --device sim:chinchilla-70b --draft-device sim:chinchilla-4b

Each prompt is completed alone, its end-of-text ignored, with a seed of its own under the
rejection rule (--verify chooses another); --speculation measures one mode only. Spread is
(largest - smallest) / median of the repetitions. Simulated devices run on virtual time.)";

} // namespace

Command add_bench(CLI::App& program) {
  auto* app = program.add_subcommand("bench", "Measure modes and steps, repeatably");
  auto options = std::make_shared<Options>();
  options->plan.repetitions = 3;
  options->plan.request.max_tokens = tokens_default;
  options->plan.request.ignore_eos = true;
  options->plan.request.verify = VerifyRule::rejection;
  add_workload_options(*app, *options);
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->plan.request);
  add_sampling_options(*app, options->plan.request);
  add_trace_option(*app, options->engine);
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
