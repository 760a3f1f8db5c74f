#include "apps/laboratory/bench/serve_options.hpp"

#include "actors/engine_fields.hpp"
#include "apps/console/options.hpp"
#include "apps/console/validators.hpp"

#include <algorithm>
#include <limits>

namespace paceline::apps {
namespace {

using namespace load;

constexpr double rate_max = 1e9;

/// Adds an option whose values are read by `parse`.
template <class T, class Parse>
void add_parsed(CLI::App& app, const std::string& name, std::vector<T>& into, const Parse& parse,
                const std::string& wanted, const std::string& description,
                const std::string& type) {
  const auto check = [parse, wanted](const std::string& given) {
    return parse(given) ? std::string() : not_acceptable(given, wanted);
  };
  const auto set = [&into, parse](const std::vector<std::string>& all) {
    for (const std::string& given : all)
      into.push_back(*parse(given));
  };
  app.add_option_function<std::vector<std::string>>(name, set, description)
      ->check(CLI::Validator(check, ""))
      ->type_name(type);
}

void add_server_options(CLI::App& app, ServeOptions& options) {
  app.option_defaults()->group("Server");
  load::add_server_options(app, options.server,
                           "Put the load on this server, such as http://127.0.0.1:8000; default: "
                           "an engine of this program");
  add_choice<Api>(app, "--api", options.api,
                  {{"completions", Api::completions}, {"chat", Api::chat}},
                  "Which of OpenAI's endpoints; default: completions");
  app.add_option("--served-model-name", options.served_model_name,
                 "What the server calls the model; default: the first that it names")
      ->type_name("NAME");
}

void add_length_options(CLI::App& app, PlanOptions& plan) {
  constexpr int most = 1 << 24;
  auto* prompts = app.add_option("--prompts", plan.prompts_file,
                                 R"(JSONL: {"prompt": TEXT or [ids], "max_tokens": N} a line)");
  prompts->type_name("FILE");
  auto* trace = app.add_option("--load-trace", plan.trace_file,
                               "CSV: arrival in seconds, prompt tokens, output tokens");
  trace->type_name("FILE")->excludes(prompts);
  app.add_option("--input-len", plan.mean.prompt, "Tokens of a prompt")
      ->capture_default_str()
      ->check(whole_number(1, most))
      ->excludes(prompts)
      ->excludes(trace)
      ->type_name("N");
  app.add_option("--output-len", plan.mean.output, "Tokens of an answer")
      ->capture_default_str()
      ->check(whole_number(1, most))
      ->excludes(trace)
      ->type_name("N");
  app.add_option("--range-ratio", plan.range_ratio,
                 "Draw both lengths evenly from (1 - R) to (1 + R) times these")
      ->capture_default_str()
      ->check(number(0, 1))
      ->excludes(prompts)
      ->excludes(trace)
      ->type_name("R");
}

void add_arrival_options(CLI::App& app, ServeOptions& options) {
  PlanOptions& plan = options.plan;
  app.option_defaults()->group("Load");
  app.add_option("--num-prompts", plan.requests, "Requests; default: 100, or all of a file")
      ->check(whole_number(1, 10'000'000))
      ->type_name("N");
  const auto set_rate = [&plan](const std::string& given) {
    plan.rate = given == "inf" ? std::numeric_limits<double>::infinity() : std::stod(given);
  };
  const CLI::Validator finite = number_above(0, rate_max);
  const auto check = [finite](std::string given) {
    return given == "inf" || finite(given).empty() ? std::string()
                                                   : not_acceptable(given, "inf, or above 0");
  };
  app.add_option_function<std::string>(
         "--request-rate", set_rate,
         "Requests a second; inf: all at once; default: inf, or as a trace has them")
      ->check(CLI::Validator(check, ""))
      ->type_name("R");
  app.add_option("--burstiness", plan.burstiness,
                 "Shape of the Gamma distribution of gaps; 1: Poisson, less: bursts")
      ->capture_default_str()
      ->check(number_above(0, 1e6))
      ->type_name("B");
  app.add_option("--max-concurrency", options.max_concurrency,
                 "Send no more requests at once; 0: no bound")
      ->capture_default_str()
      ->check(whole_number(0, 1'000'000))
      ->type_name("N");
  add_length_options(app, plan);
  const auto respect = [&options](std::int64_t) { options.request.ignore_eos = false; };
  app.add_flag_function("--stop-at-eos", respect,
                        "Let answers end where the model does; default: they have their length");
  app.add_option("--seed", plan.seed, "Of arrivals, lengths and prompts")
      ->capture_default_str()
      ->check(seed_number())
      ->type_name("N");
}

void add_result_options(CLI::App& app, ServeOptions& options) {
  app.option_defaults()->group("Result");
  add_parsed(app, "--goodput", options.goodput, parse_limit, "one such as ttft:200",
             "Count requests within these bounds, in ms: ttft:200 tpot:50 (itl, e2el)", "BOUND");
  app.add_flag("--find-capacity", options.find_capacity,
               "Search for the highest rate that keeps the --objective");
  add_parsed(app, "--objective", options.objectives, parse_objective,
             "one such as p99_tbt:100ms or mean_e2el:2s",
             "mean, median or pNN of ttft, tpot, tbt or e2el: p99_tbt:100ms", "BOUND");
  app.add_option("--precision", options.precision, "How near the search comes, as a share")
      ->capture_default_str()
      ->check(number_above(0, 1))
      ->type_name("X");
  app.add_option("--svg", options.svg_file, "Draw latency over rate, as the search found it")
      ->check(writable_file())
      ->type_name("FILE");
  app.add_option("--result-file", options.result_file, "Write what --json prints")
      ->check(writable_file())
      ->type_name("FILE");
  app.add_flag("--save-detailed", options.detailed,
               "With the lengths and latencies of each request");
}

/// Adds the options of an engine in this process.
void add_engine_options(CLI::App& app, ServeOptions& options) {
  const std::vector<CLI::Option*> before = app.get_options();
  add_model_options(app, options.engine);
  add_batching_options(app, options.engine);
  add_scale_options(app, options.scale);
  add_speculation_options(app, options.engine, options.request);
  app.add_option("--max-waiting", options.engine.max_waiting,
                 "Requests that may wait for a place in the batch; default: all")
      ->check(within(actors::engine_number("max_waiting").range))
      ->type_name("N");
  add_trace_option(app, options.engine);
  for (const CLI::Option* option : app.get_options())
    if (std::ranges::find(before, option) == before.end())
      options.of_engine.push_back(option);
}

} // namespace

void add_bench_serve_options(CLI::App& app, ServeOptions& options) {
  options.engine.max_waiting = -1; // -1: not given.
  options.request.ignore_eos = true;
  add_arrival_options(app, options);
  add_server_options(app, options);
  add_result_options(app, options);
  add_engine_options(app, options);
  add_distribution_options(app, options.request);
  add_json_option(app, options.json);
}

} // namespace paceline::apps
