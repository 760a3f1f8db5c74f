// paceline bench: modes and steps, measured so that they can be repeated.
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/laboratory/bench/compare.hpp"
#include "apps/laboratory/bench/report.hpp"
#include "apps/laboratory/bench/run.hpp"
#include "apps/laboratory/bench_serve.hpp"

#include <memory>

namespace paceline::apps {
namespace {

struct Options {
  BenchOptions bench;
  std::string compare; ///< File with an earlier report; empty: none.
  bool json = false;
};

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
  const auto report = run_bench(options.bench, interrupt);
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
  BenchOptions& bench = options->bench;
  add_workload_options(*app, bench);
  add_model_options(*app, bench.engine);
  add_batching_options(*app, bench.engine);
  add_scale_options(*app, bench.scale);
  add_speculation_options(*app, bench.engine, bench.plan.request);
  add_sampling_options(*app, bench.plan.request);
  add_trace_option(*app, bench.engine);
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
