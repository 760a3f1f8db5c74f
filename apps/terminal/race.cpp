// paceline race: ways of decoding one prompt, side by side.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/validators.hpp"
#include "apps/terminal/race/columns.hpp"
#include "apps/terminal/race/frame.hpp"
#include "apps/terminal/race/record.hpp"
#include "apps/terminal/race/show.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <atomic>
#include <boost/json/object.hpp>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <thread>

namespace paceline::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* built_in_prompt = R"(class Queue:
    """A first-in, first-out container."""

    def __init__(self):
        self.items = []

    def put(self, item):
)";
constexpr std::uint64_t seed_default = 2;
constexpr int tokens_default = 128;
constexpr std::chrono::milliseconds frame_pause{40};
// A race that is over sooner is shown slower, so that it can be seen.
constexpr double shortest_seconds = 3;
constexpr double slowed_seconds = 6;

struct Options {
  EngineOptions engine;
  Request request;
  PromptSource prompt;
  std::vector<std::string> columns; ///< Empty: the modes.
  double slow = 0;                  ///< 0: chosen by the program.
  bool json = false;
};

double slowest(const std::vector<Recording>& lanes) {
  double seconds = 0;
  for (const Recording& lane : lanes)
    seconds = std::max(seconds, lane.seconds());
  return seconds;
}

/// Returns how many times slower than recorded a replay is.
double slowness(const Options& options, const std::vector<Recording>& lanes) {
  const double seconds = slowest(lanes);
  if (options.slow > 0)
    return options.slow;
  return seconds <= 0 || seconds >= shortest_seconds ? 1 : std::ceil(slowed_seconds / seconds);
}

void replay(RaceShow& show, const std::vector<Recording>& lanes, double slow,
            const std::atomic<bool>& stopped) {
  show.open();
  const auto begin = Clock::now();
  for (double now = 0; now < slowest(lanes) && !stopped;
       now = base::seconds(Clock::now() - begin) / slow) {
    show.draw(lanes, now);
    std::this_thread::sleep_for(frame_pause);
  }
}

/// Checks that the tokens of equal weights are the same in every mode, as the greedy and the
/// coupled rule promise.
Result<void> check_same_tokens(const std::vector<Recording>& lanes) {
  for (const Recording& lane : lanes) {
    const Recording& first = *std::ranges::find(lanes, lane.weights, &Recording::weights);
    if (lane.tokens != first.tokens)
      return fail(ErrorCode::internal,
                  fmt::format("{} decoding gave another text than {}", lane.name, first.name),
                  "please report it");
  }
  return {};
}

/// Returns what look-ups had seen in any single run: a look-up does not reach other runs.
boost::json::object lookups_of(const std::vector<Session>& sessions) {
  boost::json::object all;
  for (const Session& session : sessions)
    for (const auto& [name, seen] : lookups_json(session.engine, ""))
      all[name] = seen;
  return all;
}

/// Returns the sentence on how they ran, and on what.
std::string how_it_ran(std::string how, const Options& options,
                       const std::vector<Session>& sessions) {
  if (const std::string seen = lookups_text(lookups_of(sessions)); !seen.empty())
    how += ". In each run " + seen;
  const auto& devices = options.engine.devices;
  if (devices.size() < 2)
    return how + ".";
  const std::size_t shards = std::size_t(options.engine.tensor_parallel_size);
  const std::string stages =
      devices.size() > shards ? fmt::format("{} stages", devices.size() / shards) : "";
  const std::string each = stages.empty()
                               ? fmt::format("{} shards", shards)
                               : stages + (shards > 1 ? fmt::format(" of {} shards", shards) : "");
  return fmt::format("{}. The target has {}: {}.", how, each, fmt::join(devices, ", "));
}

int longest(const std::vector<Recording>& lanes) {
  std::size_t tokens = 0;
  for (const Recording& lane : lanes)
    tokens = std::max(tokens, lane.tokens.size());
  return int(tokens);
}

/// The recordings, and the texts that look-ups had seen in them.
struct Race {
  std::vector<Recording> lanes;
  boost::json::object lookups;
};

Result<std::vector<Session>> open_all(const std::vector<EngineOptions>& engines) {
  std::vector<Session> sessions;
  for (const EngineOptions& engine : engines) {
    auto session = open_session(engine);
    if (!session)
      return tl::unexpected(session.error());
    sessions.push_back(std::move(*session));
  }
  return sessions;
}

Result<Race> race(const Options& options, RaceField field, Output& out, bool drawn,
                  const std::atomic<bool>& stopped) {
  auto sessions = open_all(field.engines);
  if (!sessions)
    return tl::unexpected(sessions.error());
  const bool virtual_time = simulated(options.engine);
  if (auto ran = record_all(*sessions, options.request, virtual_time, field.lanes, stopped); !ran)
    return tl::unexpected(ran.error());
  Race race{std::move(field.lanes), lookups_of(*sessions)};
  if (stopped)
    return race;
  const double slow = slowness(options, race.lanes);
  std::string how = virtual_time
                        ? "Simulated devices: they ran in the time that the devices would take"
                        : "One machine: they ran one after another";
  if (drawn)
    how += slow == 1 ? ", and are replayed with their recorded times"
                     : fmt::format(", and are replayed {:g} times slower than recorded", slow);
  RaceShow show(out, how_it_ran(how, options, *sessions), longest(race.lanes));
  if (drawn)
    replay(show, race.lanes, slow, stopped);
  if (!options.json && !stopped)
    show.close(race.lanes);
  return race;
}

/// named: columns were named, so that two may have the same mode.
boost::json::object race_json(const Race& race, bool simulated, bool named) {
  const std::vector<Recording>& lanes = race.lanes;
  boost::json::object columns;
  for (const Recording& lane : lanes)
    columns[named ? lane.name : to_string(lane.mode)] = {
        {"tokens", lane.tokens.size()},
        {"seconds", lane.seconds()},
        {"speculation", speculation_json(lane.end->speculation, int(lane.tokens.size()))}};
  return {{"simulated", simulated},
          {"lookups", race.lookups},
          {named ? "columns" : "modes", std::move(columns)},
          {"verdict", verdict(lanes)},
          {"seed", lanes[0].end->seed}};
}

Result<void> check(const Options& options) {
  if (options.engine.speculation != SpeculationMode::automatic)
    return fail(ErrorCode::invalid_argument, "a race runs every mode",
                "leave --speculation out, or name modes with --columns");
  if (options.columns.empty() && options.engine.drafters.empty())
    return fail(ErrorCode::invalid_argument, "a race needs a draft",
                "name a --draft-model, such as self:mxfp4, the target itself");
  const VerifyRule rule = options.request.verify;
  if (rule != VerifyRule::automatic && rule != VerifyRule::coupled)
    return fail(ErrorCode::invalid_argument,
                fmt::format("with --verify {} each mode writes another text", to_string(rule)),
                "leave it out, or use --temperature 0");
  return {};
}

Result<int> run(Options options, Interrupt& interrupt) {
  if (auto checked = check(options); !checked)
    return tl::unexpected(checked.error());
  options.request.prompt = built_in_prompt;
  if (options.prompt.text || options.prompt.file) {
    auto prompt = read_text(options.prompt);
    if (!prompt)
      return tl::unexpected(prompt.error());
    options.request.prompt = std::move(*prompt);
    options.request.parse_special_tokens = true; // Whoever types special tokens knows them.
  }
  options.request.verify = VerifyRule::coupled;
  auto field = options.columns.empty() ? Result<RaceField>(all_modes(options.engine))
                                       : parse_columns(options.columns, options.engine);
  if (!field)
    return tl::unexpected(field.error());
  std::atomic<bool> stopped{false};
  const auto scope = interrupt.on_first([&stopped] { stopped = true; });
  Output out;
  const bool drawn = !options.json && moves_cursor(output_is_terminal()) &&
                     screen_size().columns >= race_columns_min;
  auto run = race(options, std::move(*field), out, drawn, stopped);
  if (!run)
    return tl::unexpected(run.error());
  if (stopped)
    return status_interrupted;
  if (auto same = check_same_tokens(run->lanes); !same)
    return tl::unexpected(same.error());
  if (options.json)
    return print_json(race_json(*run, simulated(options.engine), !options.columns.empty()));
  return out.finish().map([] { return status_ok; });
}

constexpr const char* footer = R"(Examples:
  paceline race
  paceline race "def main():" -n 256 --temperature 0
  paceline race --device sim:chinchilla-70b --draft-device sim:chinchilla-4b
  paceline race --columns bf16,mxfp6,mxfp6+draft --device sim:7b@a6000 --draft-device sim:350m@a6000

All columns with the same weights write the same text: greedy, or coupled to one seed. They run one
after another and are replayed; on simulated devices in the time that these would take, the same in
every race. A column joins a format of weights (bf16, mxfp6 ...), a mode (off, sync, overlap or
auto) and draft (--draft-model), suffix, ngram, mtp or self:FORMAT. It decodes plainly unless it
names a draft or a mode; with a draft alone its mode is auto.)";

} // namespace

Command add_race(CLI::App& program) {
  auto* app = program.add_subcommand("race", "Modes, weights and drafts side by side");
  auto options = std::make_shared<Options>();
  options->request.max_tokens = tokens_default;
  options->request.sampling.seed = seed_default;
  add_prompt_options(*app, options->prompt, "prompt");
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->request);
  add_sampling_options(*app, options->request);
  app->option_defaults()->group("Output");
  app->add_option("--columns", options->columns,
                  "What runs side by side, such as bf16,mxfp6,mxfp6+draft; default: the modes")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...");
  app->add_option("--slow", options->slow,
                  "Replay X times slower than recorded; default: so that it can be followed")
      ->check(number_above(0, 1e6))
      ->type_name("X");
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
