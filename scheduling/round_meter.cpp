#include "scheduling/round_meter.hpp"

#include <algorithm>

namespace paceline::scheduling {
namespace {

void add(speculation::RoundObservation& round, const BatchEntry& entry, const Verdict& verdict) {
  if (const auto& chain = entry.round.chain) {
    const speculation::DraftPace pace = chain->pace();
    round.draft_step_seconds = std::max(round.draft_step_seconds, base::seconds(pace.step));
    round.fork_step_seconds = std::max(round.fork_step_seconds, base::seconds(pace.fork_step));
    round.fork_rows = std::max(round.fork_rows, pace.fork_rows);
  }
  round.prefill |= entry.length - entry.feed.cached - entry.feed.again > 1;
  round.window = std::max(round.window, verdict.drafters_window());
  if (entry.round.judges)
    round.windows.push_back(verdict.drafters_window());
  round.sequences += !verdict.tokens.empty();
  round.judged += verdict.drafters_judged();
  round.accepted += verdict.drafters_accepted();
  round.looked_up += verdict.looked_up;
  round.looked_up_accepted += verdict.looked_up_accepted;
  round.by_margin.add(verdict.by_margin);
  if (!verdict.expected)
    round.expected.reset();
  else if (round.expected)
    *round.expected += *verdict.expected;
  round.tree_rows += verdict.tree_rows;
  round.tree_expected += verdict.tree_expected;
  round.lookaheads += verdict.had_lookahead;
  round.hits += verdict.had_lookahead && verdict.hit == Hit::chain;
  round.formed += verdict.formed;
  round.tokens += int(verdict.tokens.size()) - verdict.formed_accepted;
}

/// Says whether a window is drafted under the step: it may go without one of its own.
bool drafts_ahead(const InFlightBatch& flight) {
  return flight.mode == SpeculationMode::overlap &&
         std::ranges::any_of(flight.batch.entries, [](const BatchEntry& entry) {
           return entry.next.chain && entry.next.lookahead > 0;
         });
}

} // namespace

speculation::RoundObservation RoundMeter::end(const InFlightBatch& flight, const Verdicts& verdicts,
                                              base::TimePoint now, base::Telemetry& telemetry) {
  speculation::RoundObservation round;
  round.mode = flight.mode;
  round.model = flight.model;
  round.expected = 0;
  base::Duration drafting{};
  for (std::size_t i = 0; i < verdicts.sequences.size(); ++i) {
    const BatchEntry& entry = flight.batch.entries[i];
    if (entry.round.chain)
      drafting = std::max<base::Duration>(drafting, entry.round.chain->busy());
    add(round, entry, verdicts.sequences[i]);
  }
  if (round.window == 0 && !drafts_ahead(flight))
    round.mode = SpeculationMode::off; // nothing was there to judge
  const base::Duration took = now - last_end_.value_or(flight.sent);
  const bool continues = last_end_.has_value();
  last_end_ = now;
  round.rows = verdicts.rows;
  round.round_seconds = base::seconds(took);
  round.context = flight.context();
  const bool beside_others = took < verdicts.busy; // happens in a target of several stages
  if (!round.prefill && continues && !beside_others && flight.mode != SpeculationMode::overlap) {
    base::add(telemetry.decode_round_ns, took.count());
    base::add(telemetry.decode_lane_ns, verdicts.busy.count() + drafting.count());
  }
  return round;
}

} // namespace paceline::scheduling
