// What faults and their supervision cost, on this machine: medians of ratios of runs taken in turn.
//   fault_figures kills [N] | draft | step | supervision
#include "models/model.hpp"
#include "models/sources.hpp"
#include "models/synthetic/enlarge.hpp"
#include "tests/fault/traffic.hpp"
#include "tests/support/temporary_folder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace {

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

constexpr int repetitions = 9;

EngineOptions with(SpeculationMode mode) {
  EngineOptions options = live_options();
  options.speculation = mode;
  if (mode == SpeculationMode::sync)
    options.window = 4;
  return options;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return percentile(values, 0.5);
}

/// Tokens per second of so many requests at a time, for at least `seconds`; killed, if anything,
/// once a second.
double rate(LiveEngine& engine, std::size_t together, double seconds,
            std::optional<Part> killed = {}) {
  std::vector<Request> requests = live_requests(160);
  const auto begin = Clock::now();
  std::size_t tokens = 0;
  int kills = 0;
  std::vector<std::shared_ptr<LiveAnswer>> streams(together);
  std::size_t next = 0;
  while (seconds_since(begin) < seconds) {
    for (auto& stream : streams)
      if (!stream || stream->ended()) {
        tokens += stream ? stream->tokens().size() : 0;
        stream = engine.submit(requests[2 * (next++ % (requests.size() / 2))]); // greedy ones
      }
    if (killed && seconds_since(begin) > kills + 0.5) {
      engine.kill(*killed);
      ++kills;
    }
    std::this_thread::sleep_for(200us);
  }
  for (const auto& stream : streams) {
    stream->wait();
    tokens += stream->tokens().size();
  }
  return double(tokens) / seconds_since(begin);
}

int kills(int count) {
  const TrafficReport report = run_traffic({.kills = count});
  std::fputs(report.text().c_str(), stdout);
  return report.different + report.lost > 0;
}

void draft() {
  for (const std::size_t together : {1, 16}) {
    std::vector<double> dying;
    std::vector<double> healthy;
    LiveEngine plain(with(SpeculationMode::off));
    LiveEngine speculating(with(SpeculationMode::automatic));
    for (int n = 0; n < repetitions; ++n) {
      const double off = rate(plain, together, 3);
      healthy.push_back(rate(speculating, together, 3) / off);
      dying.push_back(rate(speculating, together, 3, Part::draft) / off);
    }
    std::printf("%zu streams: speculating over plain %.2f; its draft killed every second %.2f\n",
                together, median(healthy), median(dying));
  }
}

/// Seconds between a stream's deltas. With `dies` the draft is killed at the 20th, from the thread
/// that delivers it, and only the round after the one that is under way then counts.
std::vector<double> rounds(LiveEngine& engine, bool dies, std::size_t requests) {
  constexpr std::size_t death = 20;
  std::vector<double> took;
  auto asked = live_requests(120);
  asked.resize(std::min(asked.size(), requests));
  for (const Request& request : asked) {
    std::vector<Clock::time_point> times;
    const std::function<void()> shoot = dies ? engine.aim(Part::draft) : nullptr;
    auto answer = std::make_shared<LiveAnswer>([&](const Event& event) {
      if (!std::holds_alternative<Delta>(event))
        return;
      times.push_back(Clock::now());
      if (shoot && times.size() == death)
        shoot();
    });
    engine.submit(request, answer);
    answer->wait();
    const auto between = [&](std::size_t n) {
      return std::chrono::duration<double>(times[n + 1] - times[n]).count();
    };
    if (dies && times.size() > death + 1)
      took.push_back(between(death));
    for (std::size_t n = 1; !dies && n + 1 < times.size(); ++n)
      took.push_back(between(n));
  }
  return took;
}

/// The first of `requests`, each after the other, for plain decoding and for a draft that dies.
void step(const char* what, EngineOptions options, std::size_t requests) {
  std::vector<double> ratios;
  std::vector<double> plain_rounds;
  options.speculation = SpeculationMode::off;
  LiveEngine plain(options);
  options.speculation = SpeculationMode::automatic;
  for (int n = 0; n < repetitions; ++n) {
    LiveEngine speculating(options);
    plain_rounds.push_back(median(rounds(plain, false, requests)));
    ratios.push_back(median(rounds(speculating, true, requests)) / plain_rounds.back());
  }
  std::printf("%s: the round after the draft's death over a plain one of %.2f ms: %.3f (%.3f to "
              "%.3f)\n",
              what, 1e3 * median(plain_rounds), median(ratios), *std::ranges::min_element(ratios),
              *std::ranges::max_element(ratios));
}

void steps() {
  EngineOptions options = live_options();
  options.devices = {"cpu"};
  options.draft_devices = {"cpu"};
  step("demo pair, each on all cores", options, 16);
  options.devices = {"cpu:0"};
  options.draft_devices = {"cpu:1"};
  step("demo pair, a core for each", options, 16);
  const TemporaryFolder folder;
  const auto made = models::resolve_model_path(options.target, "target").and_then([&](auto demo) {
    return models::enlarge_checkpoint(demo, folder.path(), {350'000'000}, nullptr);
  });
  if (!made)
    throw std::runtime_error(made.error().text());
  options.target = folder.path();
  options.threads = 0;
  options.devices = {"cpu"};
  options.draft_devices = {"cpu"};
  step("a target of 350m, each on all cores", options, 4);
}

void supervision() {
  EngineOptions watched = with(SpeculationMode::sync);
  EngineOptions bare = watched;
  bare.faults.stall_patience = 0ms;
  LiveEngine supervised(watched);
  LiveEngine unsupervised(bare, false);
  for (const std::size_t together : {1, 4}) {
    std::vector<double> ratios;
    for (int n = 0; n < 2 * repetitions; ++n) {
      const bool first = n % 2 == 0;
      const double a = rate(first ? supervised : unsupervised, together, 2);
      const double b = rate(first ? unsupervised : supervised, together, 2);
      ratios.push_back(first ? a / b : b / a);
    }
    std::printf("%zu streams: tokens/s with monitors and deadlines over without: %.4f "
                "(%.3f to %.3f)\n",
                together, median(ratios), *std::ranges::min_element(ratios),
                *std::ranges::max_element(ratios));
  }
}

} // namespace

int main(int argc, char** argv) {
  const auto is = [&](const char* name) { return argc > 1 && !std::strcmp(argv[1], name); };
  if (is("kills"))
    return kills(argc > 2 ? int(std::strtol(argv[2], nullptr, 10)) : 500);
  if (is("draft"))
    draft();
  else if (is("step"))
    steps();
  else if (is("supervision"))
    supervision();
  else
    return std::fputs("usage: fault_figures kills [N] | draft | step | supervision\n", stderr), 2;
  return 0;
}
