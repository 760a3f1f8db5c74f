// paceline race: plain, synchronous and overlapped decoding of one prompt, side by side.
#include "apps/console/command.hpp"
#include "apps/console/input.hpp"
#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/validators.hpp"
#include "apps/terminal/race/frame.hpp"
#include "apps/terminal/race/show.hpp"

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
constexpr int warm_up_tokens = 8;
// Several rounds, since other work of the machine disturbs one run or another; slow models are run
// once.
constexpr int rounds_max = 3;
constexpr double repeating_seconds = 2;
constexpr std::chrono::milliseconds frame_pause{40};
// A race that is over sooner is shown slower, so that it can be seen.
constexpr double shortest_seconds = 3;
constexpr double slowed_seconds = 6;

struct Options {
  EngineOptions engine;
  Request request;
  PromptSource prompt;
  double slow = 0; ///< 0: chosen by the program.
  bool json = false;
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<Recording> all_ways() {
  return {{"plain", SpeculationMode::off, {}, {}, {}},
          {"synchronous", SpeculationMode::sync, {}, {}, {}},
          {"overlapped", SpeculationMode::overlap, {}, {}, {}}};
}

/// Submits the request for one run. A look-up finds nothing of other runs, since all write the same
/// text.
Result<Stream> start(Engine& engine, Request request, SpeculationMode mode, int run = 0) {
  request.speculation = mode;
  request.draft_scope = measured_scope(to_string(mode), run);
  return engine.submit(request);
}

/// Notes an event. Returns the error of a request that failed.
Result<void> note_event(Recording& lane, Event event, double seconds) {
  if (const auto* delta = std::get_if<Delta>(&event))
    lane.add(*delta, seconds);
  else if (auto* end = std::get_if<Finished>(&event)) {
    if (end->error)
      return tl::unexpected(*end->error);
    lane.end = std::move(*end);
  }
  return {};
}

Recording middle(std::vector<Recording> runs) {
  const auto at = runs.begin() + std::ptrdiff_t(runs.size() / 2);
  std::nth_element(runs.begin(), at, runs.end(), [](const Recording& a, const Recording& b) {
    return a.seconds() < b.seconds();
  });
  return std::move(*at);
}

/// Records one way from begin to end. run: which run of this way it is; the warm-up is 0.
Result<void> record(Engine& engine, const Request& request, int run, Recording& lane,
                    const std::atomic<bool>& stopped) {
  const auto begin = Clock::now();
  auto stream = start(engine, request, lane.mode, run);
  if (!stream)
    return tl::unexpected(stream.error());
  while (auto event = stream->next()) {
    if (auto noted = note_event(lane, std::move(*event), since(begin)); !noted)
      return noted;
    if (stopped)
      stream->cancel();
  }
  return {};
}

/// Records all ways on one machine, in turn, after a warm-up, and keeps of each the run with the
/// median time.
Result<void> record_all(Engine& engine, const Request& request, std::vector<Recording>& lanes,
                        const std::atomic<bool>& stopped) {
  ProgressLine progress;
  Request short_one = request;
  short_one.max_tokens = std::min(warm_up_tokens, request.max_tokens.value_or(warm_up_tokens));
  std::vector<std::vector<Recording>> runs(lanes.size());
  const auto begin = Clock::now();
  for (int round = 0; round < rounds_max && !stopped; ++round) {
    if (round > 0 && since(begin) > repeating_seconds)
      break;
    for (std::size_t i = 0; i < lanes.size() && !stopped; ++i) {
      progress.show("Decoding " + lanes[i].name,
                    (round + double(i) / double(lanes.size())) / rounds_max);
      if (Recording dropped = lanes[i]; round == 0)
        if (auto ran = record(engine, short_one, 0, dropped, stopped); !ran)
          return ran;
      auto& lane = runs[i].emplace_back(lanes[i]);
      if (auto ran = record(engine, request, round + 1, lane, stopped); !ran)
        return ran;
    }
  }
  for (std::size_t i = 0; i < lanes.size(); ++i)
    if (!stopped)
      lanes[i] = middle(std::move(runs[i]));
  return {};
}

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
  for (double now = 0; now < slowest(lanes) && !stopped; now = since(begin) / slow) {
    show.draw(lanes, now);
    std::this_thread::sleep_for(frame_pause);
  }
}

/// Checks that the tokens are the same in every mode, as the greedy and the coupled rule promise.
Result<void> check_same_tokens(const std::vector<Recording>& lanes) {
  for (const Recording& lane : lanes)
    if (lane.tokens != lanes[0].tokens)
      return fail(ErrorCode::internal, lane.name + " decoding gave another text than plain",
                  "please report it");
  return {};
}

/// Returns what look-ups had seen in any single run: a look-up does not reach other runs.
boost::json::object lookups_of(const Engine& engine) {
  return lookups_json(engine, "");
}

/// Returns the sentence on how they ran, and on what.
std::string how_it_ran(std::string how, const Options& options, const Engine& engine) {
  if (const std::string seen = lookups_text(lookups_of(engine)); !seen.empty())
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

Result<Race> race_here(const Options& options, Output& out, bool drawn,
                       const std::atomic<bool>& stopped) {
  auto session = open_session(options.engine);
  if (!session)
    return tl::unexpected(session.error());
  auto lanes = all_ways();
  if (auto ran = record_all(session->engine, options.request, lanes, stopped); !ran)
    return tl::unexpected(ran.error());
  Race race{std::move(lanes), lookups_of(session->engine)};
  if (stopped)
    return race;
  const double slow = slowness(options, race.lanes);
  std::string how = "One machine: they ran one after another";
  if (drawn)
    how += slow == 1 ? ", and are replayed with their recorded times"
                     : fmt::format(", and are replayed {:g} times slower than recorded", slow);
  RaceShow show(out, how_it_ran(how, options, session->engine), longest(race.lanes));
  if (drawn)
    replay(show, race.lanes, slow, stopped);
  if (!options.json && !stopped)
    show.close(race.lanes);
  return race;
}

/// Runs all ways at once, with an engine for each on a real clock, since simulated devices do not
/// disturb each other.
Result<Race> race_at_once(const Options& options, Output& out, bool drawn,
                          const std::atomic<bool>& stopped) {
  auto lanes = all_ways();
  std::vector<Session> sessions;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    auto session = open_session(options.engine, SimulatedTime::real_clock);
    if (!session)
      return tl::unexpected(session.error());
    sessions.push_back(std::move(*session));
  }
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    auto stream = start(sessions[i].engine, options.request, lanes[i].mode);
    if (!stream)
      return tl::unexpected(stream.error());
    streams.push_back(std::move(*stream));
  }
  const char* how = "Simulated devices: all run at once, in the time that the devices would take";
  RaceShow show(out, how_it_ran(how, options, sessions[0].engine),
                options.request.max_tokens.value_or(0));
  if (drawn)
    show.open();
  const auto begin = Clock::now();
  const auto running = [&] {
    return std::any_of(lanes.begin(), lanes.end(), [](const Recording& l) { return !l.end; });
  };
  for (auto next = begin; running() && !stopped;) {
    for (std::size_t i = 0; i < lanes.size(); ++i)
      while (auto event = streams[i].try_next())
        if (auto noted = note_event(lanes[i], std::move(*event), since(begin)); !noted)
          return tl::unexpected(noted.error());
    if (Clock::now() >= next) {
      show.draw(lanes, since(begin));
      next += frame_pause;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!options.json && !stopped)
    show.close(lanes);
  return Race{std::move(lanes), lookups_of(sessions[0].engine)};
}

boost::json::object race_json(const Race& race, bool at_once) {
  const std::vector<Recording>& lanes = race.lanes;
  boost::json::object modes;
  for (const Recording& lane : lanes)
    modes[to_string(lane.mode)] = {
        {"tokens", lane.tokens.size()},
        {"seconds", lane.seconds()},
        {"speculation", speculation_json(lane.end->speculation, int(lane.tokens.size()))}};
  return {{"at_once", at_once},
          {"lookups", race.lookups},
          {"modes", std::move(modes)},
          {"verdict", verdict(lanes)},
          {"seed", lanes[0].end->seed}};
}

Result<void> check(const Options& options) {
  if (options.engine.speculation != SpeculationMode::automatic)
    return fail(ErrorCode::invalid_argument, "a race runs every mode", "leave --speculation out");
  if (options.engine.drafters.empty())
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
  std::atomic<bool> stopped{false};
  const auto scope = interrupt.on_first([&stopped] { stopped = true; });
  Output out;
  const bool drawn = !options.json && moves_cursor(output_is_terminal()) &&
                     screen_size().columns >= race_columns_min;
  const bool at_once = simulated(options.engine);
  auto race = at_once ? race_at_once(options, out, drawn, stopped)
                      : race_here(options, out, drawn, stopped);
  if (!race)
    return tl::unexpected(race.error());
  if (stopped)
    return status_interrupted;
  if (auto same = check_same_tokens(race->lanes); !same)
    return tl::unexpected(same.error());
  if (options.json)
    return print_json(race_json(*race, at_once));
  return out.finish().map([] { return status_ok; });
}

constexpr const char* footer = R"(Examples:
  paceline race
  paceline race "def main():" -n 256 --temperature 0
  paceline race --device sim:chinchilla-70b --draft-device sim:chinchilla-4b

All three write the same text: greedy, or coupled to one seed. On real devices they run one after
another and are replayed; on simulated ones they run at once. The screen says which.)";

} // namespace

Command add_race(CLI::App& program) {
  auto* app = program.add_subcommand("race", "Plain, synchronous and overlapped side by side");
  auto options = std::make_shared<Options>();
  options->request.max_tokens = tokens_default;
  options->request.sampling.seed = seed_default;
  add_prompt_options(*app, options->prompt, "prompt");
  add_model_options(*app, options->engine);
  add_speculation_options(*app, options->engine, options->request);
  add_sampling_options(*app, options->request);
  app->option_defaults()->group("Output");
  app->add_option("--slow", options->slow,
                  "Replay X times slower than recorded; default: so that it can be followed")
      ->check(number_above(0, 1e6))
      ->type_name("X");
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt& interrupt) { return run(*options, interrupt); }};
}

} // namespace paceline::apps
