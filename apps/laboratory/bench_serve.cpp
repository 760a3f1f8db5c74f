// paceline bench serve: load like that of a service, on a server or on an engine of its own.
#include "apps/laboratory/bench_serve.hpp"
#include "actors/limits.hpp"
#include "apps/console/json_text.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/terminal.hpp"
#include "apps/laboratory/bench/scale.hpp"
#include "apps/laboratory/bench/serve_options.hpp"
#include "apps/laboratory/bench/workload.hpp"
#include "apps/laboratory/load/engine_target.hpp"
#include "apps/laboratory/load/http_target.hpp"
#include "apps/laboratory/load/plan.hpp"
#include "apps/laboratory/load/report.hpp"
#include "sampling/fields.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>

namespace paceline::apps {
namespace {

using namespace load;

constexpr int warmup_tokens = 16;
constexpr double first_rate_default = 1;

/// The target of the load, and the facts on it in the report.
struct Subject {
  std::unique_ptr<ScaledFolder> scaled;
  std::unique_ptr<Session> session; ///< Null: a server. Must not move: the target refers to it.
  std::unique_ptr<Target> target;
  std::optional<PromptPool> pool; ///< None if the prompts come from a file.
  std::string name;               ///< Name of the model.
  boost::json::object facts;
};

/// Makes a pool for prompts of the wanted lengths.
PromptPool pool_of(std::vector<TokenId> ids, const std::string& text) {
  return ids.empty() ? PromptPool(text) : PromptPool(std::move(ids));
}

// --- an engine here

/// Opens an engine in this process. text: prompts are cut from it.
Result<Subject> open_engine(const ServeOptions& options, const Plan& plan, const std::string& text,
                            Interrupt& interrupt) {
  Subject subject;
  EngineOptions engine = options.engine;
  auto scaled = scale_models(options.scale, engine, interrupt);
  if (!scaled)
    return tl::unexpected(scaled.error());
  subject.scaled = std::move(*scaled);
  if (engine.max_waiting < 0) // Not given: all requests of the plan may wait.
    engine.max_waiting = int(std::min<std::size_t>(plan.size(), actors::limits::max_waiting_max));
  const bool sim = simulated(engine);
  auto session = open_session(std::move(engine));
  if (!session)
    return tl::unexpected(session.error());
  subject.session = std::make_unique<Session>(std::move(*session));
  Engine& opened = subject.session->engine;
  if (!sim)
    if (auto warm = warm_up(opened, warmup_tokens); !warm)
      return tl::unexpected(warm.error());
  ModelInfo target = opened.target();
  name_scaled(target, options.engine.target, options.scale.target);
  subject.name = target.name;
  subject.facts = {{"backend", "paceline"},
                   {"simulated", sim},
                   {"target", model_json(target)},
                   {"lookups", lookups_json(opened, "the same run")}};
  if (auto draft = opened.draft_model()) {
    name_scaled(*draft, options.engine.drafters.back(), options.scale.draft);
    subject.facts["draft"] = model_json(*draft);
  }
  subject.target = std::make_unique<EngineTarget>(
      opened, options.request, sim ? EngineTarget::Time::virtual_clock : EngineTarget::Time::real);
  if (plan.needs_pool())
    subject.pool = pool_of(opened.tokenize(text, false), text);
  return subject;
}

// --- a server

/// Returns the sampling fields of a body.
boost::json::object body_of(const Request& request) {
  boost::json::object body;
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (const auto value = field.warps() ? field.member.get(request) : std::nullopt)
      body[field.name()] =
          field.range.whole ? boost::json::value(std::int64_t(*value)) : boost::json::value(*value);
  if (request.ignore_eos)
    body["ignore_eos"] = true;
  return body;
}

Result<void> check_server_options(const ServeOptions& options) {
  for (const CLI::Option* option : options.of_engine)
    if (option->count() > 0)
      return fail(ErrorCode::invalid_argument,
                  option->get_name() + " cannot be given with --base-url",
                  "the server has chosen that; leave it out");
  return {};
}

/// Opens a server as the target. text: prompts are cut from it; if the server cannot tell its ids,
/// words are taken for tokens.
Result<Subject> open_server(const ServeOptions& options, const Plan& plan,
                            const std::string& text) {
  const auto server = reach(options.server, options.server.base_url);
  if (!server)
    return tl::unexpected(server.error());
  if (auto checked = check_server_options(options); !checked)
    return tl::unexpected(checked.error());
  auto target = std::make_unique<HttpTarget>(*server, options.api, body_of(options.request));
  if (auto opened = target->open(options.served_model_name); !opened)
    return tl::unexpected(opened.error());
  Subject subject;
  subject.name = target->model();
  subject.facts = {
      {"backend", options.api == Api::chat ? "openai-chat" : "openai"},
      {"base_url", server->url.text()},
      {"lookups", boost::json::object{{"server", "what it was asked before, in other runs, too"}}}};
  if (plan.needs_pool())
    subject.pool =
        pool_of(options.api == Api::chat ? std::vector<TokenId>() : target->tokenize(text), text);
  subject.target = std::move(target);
  return subject;
}

Result<Subject> open_subject(const ServeOptions& options, const Plan& plan, Interrupt& interrupt) {
  const auto prompts = load_prompts(builtin_prompts());
  if (!prompts)
    return tl::unexpected(prompts.error());
  const std::string text = fmt::format("{}", fmt::join(*prompts, "\n\n"));
  return options.server.base_url.empty() ? open_engine(options, plan, text, interrupt)
                                         : open_server(options, plan, text);
}

// --- runs

Run run_once(const ServeOptions& options, const Plan& plan, Subject& subject,
             const std::atomic<bool>& stopped, std::optional<double> rate = {}, int round = 0) {
  const auto items = plan.items(subject.pool ? &*subject.pool : nullptr, rate, round);
  ProgressLine line;
  LoadOptions how;
  how.max_concurrency = options.max_concurrency;
  const std::string what = rate ? fmt::format("Load at {:.4g} a second", *rate) : "Load";
  how.progress = [&](std::size_t ended) { line.show(what, double(ended) / double(items.size())); };
  return put_load(*subject.target, items, how, stopped);
}

boost::json::object head_json(const ServeOptions& options, const Plan& plan,
                              const Subject& subject) {
  boost::json::object object{
      {"date", fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)))},
      {"model_id", subject.name},
      {"num_prompts", plan.size()},
      {"burstiness", options.plan.burstiness},
      {"seed", options.plan.seed}};
  object["request_rate"] = rate_json(plan.rate());
  object["max_concurrency"] = options.max_concurrency > 0
                                  ? boost::json::value(options.max_concurrency)
                                  : boost::json::value();
  for (const auto& [name, value] : subject.facts)
    object[name] = value;
  return object;
}

/// Returns a line and an empty one, or nothing.
std::string lookups_line(const Subject& subject) {
  const std::string text = lookups_text(subject.facts.at("lookups").as_object());
  return text.empty() ? "" : text + "\n\n";
}

/// Prints the report, and writes it to a file if one was named.
Result<int> tell(const ServeOptions& options, const Plan& plan, const Subject& subject,
                 boost::json::object figures, const std::string& text) {
  boost::json::object object = head_json(options, plan, subject);
  for (auto& [name, value] : figures)
    object[name] = std::move(value);
  if (auto written = write_if_named(options.result_file, [&] { return json_text(object) + "\n"; });
      !written)
    return tl::unexpected(written.error());
  return options.json ? print_json(object) : print_text(text);
}

/// Makes the error for failed requests: the report is printed, and the exit status tells of them
/// too.
tl::unexpected<Error> some_failed(const Figures& figures) {
  const auto often = std::ranges::max_element(figures.failures, {},
                                              [](const auto& reason) { return reason.second; });
  return fail(ErrorCode::unavailable,
              fmt::format("{} of {} requests failed, {} of them: {}", figures.failed,
                          figures.failed + figures.completed, often->second, often->first),
              "the report has all reasons");
}

Result<int> load_once(const ServeOptions& options, const Plan& plan, Subject& subject,
                      const std::atomic<bool>& stopped) {
  const Run run = run_once(options, plan, subject, stopped);
  const Figures figures = measure(run, options.goodput);
  const auto told = tell(options, plan, subject, run_json(run, figures, options.detailed),
                         fmt::format("load on {}\n\n{}{}", subject.name, lookups_line(subject),
                                     run_text(run, figures)));
  if (!told || run.interrupted)
    return told.map([](int) { return status_interrupted; });
  if (figures.failed > 0)
    return some_failed(figures);
  return told;
}

/// Adds a bound on the first token. A bound on the time between tokens alone would let the queue
/// grow for ever, so requests have to begin in time, too (Sarathi-Serve's 2 seconds, of the
/// median).
std::vector<Objective> with_first_token(std::vector<Objective> objectives) {
  if (std::ranges::all_of(objectives, [](const Objective& objective) {
        return objective.latency == Latency::itl || objective.latency == Latency::tpot;
      }))
    objectives.push_back(*parse_objective("p50_ttft:2s"));
  return objectives;
}

Result<int> search(const ServeOptions& options, const Plan& plan, Subject& subject,
                   const std::atomic<bool>& stopped) {
  const auto objectives = with_first_token(options.objectives);
  int round = 0;
  const Capacity capacity = find_capacity(
      [&](double rate) -> std::optional<Figures> {
        const Run run = run_once(options, plan, subject, stopped, rate, round++);
        return run.interrupted ? std::nullopt : std::optional(measure(run, options.goodput));
      },
      objectives, std::isfinite(plan.rate()) ? plan.rate() : first_rate_default, options.precision);
  const auto told = tell(options, plan, subject, capacity_json(capacity, objectives),
                         fmt::format("capacity of {}\n\n{}{}", subject.name, lookups_line(subject),
                                     capacity_text(capacity, objectives)));
  if (!told)
    return told;
  if (auto drawn =
          write_if_named(options.svg_file, [&] { return capacity_svg(capacity, objectives); });
      !drawn)
    return tl::unexpected(drawn.error());
  if (capacity.interrupted)
    return status_interrupted;
  const bool answered = std::ranges::any_of(
      capacity.trials, [](const Trial& trial) { return trial.figures.completed > 0; });
  if (!answered)
    return some_failed(capacity.trials.back().figures);
  return told;
}

Result<int> run(const ServeOptions& options, Interrupt& interrupt) {
  if (options.find_capacity == options.objectives.empty())
    return fail(ErrorCode::invalid_argument, "--find-capacity and --objective go together",
                "give both: --find-capacity --objective p99_tbt:100ms");
  const auto plan = Plan::load(options.plan);
  if (!plan)
    return tl::unexpected(plan.error());
  if (options.api == Api::chat && !options.plan.prompts_file.empty())
    for (const Item& item : plan->items(nullptr))
      if (!std::holds_alternative<std::string>(item.prompt))
        return fail(ErrorCode::invalid_argument, "a chat's prompt cannot be ids",
                    "write texts, or leave --api chat out");
  auto subject = open_subject(options, *plan, interrupt);
  if (!subject)
    return tl::unexpected(subject.error());
  std::atomic<bool> stopped{false};
  const auto scope = interrupt.on_first([&] {
    stopped = true;
    subject->target->wake();
  });
  auto status = options.find_capacity ? search(options, *plan, *subject, stopped)
                                      : load_once(options, *plan, *subject, stopped);
  subject->target->cancel();
  if (status && subject->session)
    if (auto closed = close_engine(subject->session->engine); !closed)
      return tl::unexpected(closed.error());
  return status;
}

constexpr const char* footer = R"(Examples:
  paceline bench serve --request-rate 4 --input-len 200 --output-len 100 --goodput ttft:500 tpot:50
  paceline bench serve --base-url http://127.0.0.1:8000 --max-concurrency 16 --json
  paceline bench serve --device sim:20ms --draft-device sim:2ms --request-rate 3
  paceline bench serve --base-url https://example.org --api chat --prompts prompts.jsonl
  paceline bench serve --find-capacity --objective p99_tbt:100ms p50_ttft:1s --svg capacity.svg

Simulated devices run on virtual time: with a scripted model an hour of traffic takes seconds. It
repeats exactly.
Latencies are measured and named as in vLLM's benchmark. Where requests failed the exit status is
1, and the report has the reasons; Ctrl-C gives what was measured so far.)";

} // namespace

Command add_bench_serve(CLI::App& bench) {
  auto* app = bench.add_subcommand("serve", "Put load on a server, or on an engine, and measure");
  app->group("Commands");
  auto options = std::make_shared<ServeOptions>();
  add_bench_serve_options(*app, *options);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
