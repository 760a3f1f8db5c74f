// paceline demo: the same completion in plain, synchronous and overlapped mode, and the time of
// each.
#include "apps/console/command.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/statistics.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/validators.hpp"
#include "gpu/cpu/topology.hpp"
#include "sampling/theory.hpp"

#include <array>
#include <fmt/format.h>
#include <memory>
#include <utility>

namespace paceline::apps {
namespace {

constexpr const char* prompt = R"(class Stack:
    """A last-in, first-out container."""

    def __init__(self):
        self.items = []

    def push(self, item):
)";
constexpr std::uint64_t fixed_seed = 2;
constexpr int tokens_default = 128;
constexpr int repetitions = 3;
// These are the 70B target and the 4B draft of Chen et al. 2023.
constexpr const char* sim_target = "sim:chinchilla-70b";
constexpr const char* sim_draft = "sim:chinchilla-4b";
constexpr double sim_target_ms = 14.1;
constexpr double sim_draft_ms = 1.8;

struct Options {
  EngineOptions engine;
  Request request;
};

/// One way of decoding, run several times.
struct Way {
  SpeculationMode mode;
  const char* name;
  std::vector<double> rates{};
  Completion answer{};
};

using Ways = std::array<Way, 3>;

Ways all_ways() {
  return {Way{SpeculationMode::off, "plain"}, Way{SpeculationMode::sync, "synchronous"},
          Way{SpeculationMode::overlap, "overlapped"}};
}

/// Decodes once and files the result. out: shows the text as it comes.
Result<void> run_once(Engine& engine, Request request, Way& way, Output* out) {
  request.speculation = way.mode;
  request.draft_scope = measured_scope(to_string(way.mode), int(way.rates.size()));
  auto stream = engine.submit(request);
  if (!stream)
    return tl::unexpected(stream.error());
  auto answer = follow(*stream, [&](const Delta& delta) {
    if (out)
      out->write(delta.text);
  });
  if (!answer)
    return tl::unexpected(answer.error());
  way.rates.push_back(decode_rate(answer->end));
  way.answer = std::move(*answer);
  return {};
}

/// Runs all ways in turn, so that other work of the machine affects each of them.
Result<void> repeat(Engine& engine, const Request& request, Ways& ways, int times) {
  ProgressLine line;
  for (int i = 0; i < times; ++i) {
    line.show("Measuring", double(i) / times);
    for (Way& way : ways)
      if (auto ran = run_once(engine, request, way, nullptr); !ran)
        return ran;
  }
  return {};
}

/// Runs all ways on this machine. Each is shown the first time.
Result<void> run_here(Engine& engine, const Request& request, Ways& ways, Output& out) {
  const bool terminal = output_is_terminal();
  for (Way& way : ways) {
    out.write(fmt::format("{}\n{}", bold(fmt::format("--- {}", way.name), terminal),
                          dim(request.prompt, terminal)));
    if (auto ran = run_once(engine, request, way, &out); !ran)
      return ran;
    out.write("\n\n");
  }
  return repeat(engine, request, ways, repetitions - 1);
}

Result<Ways> run_simulated(const Options& options) {
  EngineOptions engine = options.engine;
  engine.devices = {sim_target};
  engine.draft_devices = {sim_draft};
  auto session = open_session(std::move(engine));
  if (!session)
    return tl::unexpected(session.error());
  Ways ways = all_ways();
  if (auto ran = repeat(session->engine, options.request, ways, repetitions); !ran)
    return tl::unexpected(ran.error());
  return ways;
}

Result<void> check_same_text(const Ways& ways, const Ways& reference) {
  for (const Way& way : ways)
    if (way.answer.tokens != reference[0].answer.tokens)
      return fail(ErrorCode::internal,
                  fmt::format("{} decoding gave another text than plain", way.name),
                  "please report it");
  return {};
}

void add_rows(Table& table, const Ways& ways, const std::string& where) {
  const double plain = median(ways[0].rates);
  for (const Way& way : ways) {
    const SpeculationStats& s = way.answer.end.speculation;
    const double rate = median(way.rates);
    table.add({fmt::format("{}, {}", where, way.name), fmt::format("{:.1f}", rate),
               s.judged > 0 ? fmt::format("{:.2f}", s.acceptance_rate()) : "-",
               fmt::format("{:.2f}", tokens_per_round(s, way.answer.end.usage.completion_tokens)),
               fmt::format("{:.2f}x", rate / plain)});
  }
}

double overlap_gain(const Ways& ways) {
  return median(ways[2].rates) / median(ways[1].rates);
}

/// Returns the gain that theory predicts for two devices like the simulated ones, each mode with
/// its best window.
double theoretical_overlap_gain(double acceptance) {
  namespace theory = sampling::theory;
  constexpr double c = sim_draft_ms / sim_target_ms;
  constexpr int longest = 8;
  const int sync = theory::best_window_sync(acceptance, c, 0, longest);
  const int overlap = theory::best_window_overlap(acceptance, c, 0, longest);
  return theory::overlap_rate(acceptance, overlap, c, 1, theory::chain_hit(acceptance, overlap)) /
         theory::sync_rate(acceptance, sync, c, 1);
}

/// Returns what the figures show, whether speculation was faster or not.
std::string remarks(const Ways& here, const Ways& simulated) {
  constexpr double often = 0.9;
  return fmt::format(
      "The texts are the same, token for token. Medians of {} runs in turn.\n"
      "Simulated: the same models and tokens, timed as if each had a device of its own,\n"
      "{} ms a target step and {} ms a drafted token (Chen et al. 2023).\n"
      "Overlap pays when the draft has a device of its own and is often right: over synchronous,\n"
      "{:.2f}x here on {} shared cores, {:.2f}x simulated; in theory {:.2f}x at acceptance {}.\n",
      repetitions, sim_target_ms, sim_draft_ms, overlap_gain(here), gpu::cpu::usable_cores().size(),
      overlap_gain(simulated), theoretical_overlap_gain(often), often);
}

Result<int> run(const Options& options) {
  auto session = open_session(options.engine);
  if (!session)
    return tl::unexpected(session.error());
  Output out;
  Ways here = all_ways();
  if (auto ran = run_here(session->engine, options.request, here, out); !ran)
    return tl::unexpected(ran.error());
  const auto simulated = run_simulated(options);
  if (!simulated)
    return tl::unexpected(simulated.error());
  for (const Ways* ways : {&std::as_const(here), &*simulated})
    if (auto same = check_same_text(*ways, here); !same)
      return tl::unexpected(same.error());
  Table table({"", "tokens/s", "acceptance", "tokens/round", "speed-up"});
  add_rows(table, here, "this machine");
  add_rows(table, *simulated, "simulated");
  out.write(table.text() + "\n" + remarks(here, *simulated));
  return out.finish().map([] { return status_ok; });
}

} // namespace

Command add_demo(CLI::App& program) {
  auto* app = program.add_subcommand(
      "demo", "See the built-in pair complete a prompt in each mode, and what each cost");
  auto options = std::make_shared<Options>();
  options->request.prompt = prompt;
  options->request.max_tokens = tokens_default;
  options->request.ignore_eos = true;
  options->request.sampling.seed = fixed_seed;
  options->request.verify = VerifyRule::coupled;
  app->add_option("-n,--max-tokens", options->request.max_tokens, "Tokens per run")
      ->check(whole_number(2, 800))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--seed", options->request.sampling.seed, "Another text")
      ->check(seed_number())
      ->capture_default_str()
      ->type_name("N");
  app->footer("Sampling is coupled to a fixed seed, so that every mode writes the same text.");
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
