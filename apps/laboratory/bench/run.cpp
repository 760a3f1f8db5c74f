#include "apps/laboratory/bench/run.hpp"

#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "apps/laboratory/bench/machine.hpp"
#include "apps/laboratory/bench/steps.hpp"
#include "apps/laboratory/bench/workload.hpp"
#include "gpu/cpu/topology.hpp"

#include <algorithm>
#include <optional>

namespace paceline::apps {
namespace {

constexpr int tokens_default = 128;
constexpr float temperature_default = 0.8f;
constexpr int repetitions_default = 3;

/// Returns the modes that make sense: without a draft only one does.
std::vector<SpeculationMode> modes_of(const EngineOptions& engine) {
  using enum SpeculationMode;
  if (engine.drafters.empty())
    return {off};
  if (engine.speculation != automatic)
    return {engine.speculation};
  return {off, sync, overlap, automatic};
}

Result<ModesPlan> plan_of(const BenchOptions& options) {
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
  options.kv_cache_dtype = KvCacheDtype::automatic;
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

} // namespace

BenchOptions::BenchOptions() {
  plan.repetitions = repetitions_default;
  plan.request.max_tokens = tokens_default;
  plan.request.ignore_eos = true;
  plan.request.verify = VerifyRule::rejection;
  plan.request.sampling.temperature = temperature_default;
}

void add_workload_options(CLI::App& app, BenchOptions& options) {
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

Result<BenchReport> run_bench(const BenchOptions& options, Interrupt& interrupt) {
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

} // namespace paceline::apps
