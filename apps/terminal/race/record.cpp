#include "apps/terminal/race/record.hpp"

#include "apps/console/lookups.hpp"
#include "apps/console/terminal.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace paceline::apps {
namespace {

constexpr int warm_up_tokens = 8;
// Several rounds, since other work of the machine disturbs one run or another; slow models are run
// once.
constexpr int rounds_max = 3;
constexpr double repeating_seconds = 2;

Recording middle(std::vector<Recording> runs) {
  const auto at = runs.begin() + std::ptrdiff_t(runs.size() / 2);
  std::nth_element(runs.begin(), at, runs.end(), [](const Recording& a, const Recording& b) {
    return a.seconds() < b.seconds();
  });
  return std::move(*at);
}

/// Submits the request for one run of a column. A look-up finds nothing of other runs, since all
/// write the same text.
Result<Stream> start(Engine& engine, Request request, const Recording& lane, int run) {
  request.speculation = lane.mode;
  request.draft_scope = measured_scope(lane.name, run);
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

/// Records one column from begin to end. run: which run of this column it is; the warm-up is 0.
Result<void> record(Engine& engine, const Request& request, int run, Recording& lane,
                    const std::atomic<bool>& stopped) {
  const auto begin = engine.now();
  auto stream = start(engine, request, lane, run);
  if (!stream)
    return tl::unexpected(stream.error());
  while (auto event = stream->next()) {
    const double seconds = base::seconds(engine.now() - begin);
    if (auto noted = note_event(lane, std::move(*event), seconds); !noted)
      return noted;
    if (stopped)
      stream->cancel();
  }
  return {};
}

} // namespace

Result<void> record_all(std::vector<Session>& engines, const Request& request, bool virtual_time,
                        std::vector<Recording>& lanes, const std::atomic<bool>& stopped) {
  ProgressLine progress;
  Request short_one = request;
  short_one.max_tokens = std::min(warm_up_tokens, request.max_tokens.value_or(warm_up_tokens));
  std::vector<std::vector<Recording>> runs(lanes.size());
  const int rounds = virtual_time ? 1 : rounds_max;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds && !stopped; ++round) {
    if (round > 0 && base::seconds(std::chrono::steady_clock::now() - begin) > repeating_seconds)
      break;
    for (std::size_t i = 0; i < lanes.size() && !stopped; ++i) {
      Engine& engine = engines[std::size_t(lanes[i].engine)].engine;
      progress.show("Decoding " + lanes[i].name,
                    (round + double(i) / double(lanes.size())) / rounds);
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

} // namespace paceline::apps
