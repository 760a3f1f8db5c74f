// What became of a batch: commits, chains, statistics.
#include "actors/limits.hpp"
#include "actors/scheduler.hpp"
#include "sampling/stop.hpp"

#include <algorithm>
#include <limits>

namespace paceline::actors {

using namespace messages;

void Scheduler::take(const Verdicts& verdicts) {
  if (armed_ && armed_->batch.id == verdicts.batch) {
    early_ = verdicts;
    return;
  }
  if (!flight_ || flight_->batch.id != verdicts.batch)
    return; // a batch that was given up
  const Flight flight = std::move(*flight_);
  flight_.reset();
  auto armed = std::exchange(armed_, std::nullopt);
  const auto early = std::exchange(early_, std::nullopt);
  if (verdicts.error) {
    if (verdicts.error->code == ErrorCode::unavailable) // its lane was closed: it is dead
      wiring_.target = nullptr;
    for (const BatchEntry& entry : flight.batch.entries)
      if (Sequence* s = find(entry.spec->id); s && s->epoch == entry.epoch)
        rebuild(*s, &*verdicts.error);
    pump();
    return;
  }
  base::Duration draft_time{};
  Commits commits;
  std::vector<SequenceId> ended;
  sampling::RoundObservation round;
  round.mode = flight.mode;
  for (std::size_t i = 0; i < verdicts.sequences.size(); ++i) {
    const BatchEntry& entry = flight.batch.entries[i];
    const Verdict& verdict = verdicts.sequences[i];
    if (entry.chain)
      draft_time = std::max<base::Duration>(draft_time, entry.chain->busy());
    round.prefill |= entry.length - entry.cached > 1;
    round.window = std::max(round.window, verdict.window);
    round.sequences += !verdict.tokens.empty();
    round.judged += verdict.judged;
    round.accepted += verdict.accepted;
    round.by_margin.add(verdict.by_margin);
    round.lookaheads += verdict.had_lookahead;
    round.hits += verdict.had_lookahead && verdict.hit == Hit::chain;
    if (verdict.guesses > 0)
      policy_.observe_guess(verdict.guess_rank);
    round.tokens += int(verdict.tokens.size());
    if (apply(entry, verdict, commits))
      ended.push_back(entry.spec->id);
  }
  step_times_.observe(verdicts.rows, flight.prefill, now() - flight.sent);
  if (flight.draft != wiring_.draft) // whoever was to write what goes on now is gone
    for (auto& [id, s] : sequences_)
      retire_chain(s);
  round.rows = verdicts.rows;
  round.target_seconds = base::seconds(verdicts.busy);
  observe(round, flight, draft_time);
  for (const SequenceId id : ended)
    end(id);
  if (armed)
    go_on(std::move(*armed), verdicts);
  pump(); // the next batch before the news: the target waits for it
  if (!commits.sequences.empty())
    tell(self_, wiring_.facade, std::move(commits));
  watch_draft();
  if (early)
    take(*early);
}

/// The target's lane has gone on with what was armed, or it never will. Who ended meanwhile, or
/// lost its pages, has a row in vain: its epoch is another.
void Scheduler::go_on(Flight armed, const Verdicts& verdicts) {
  armed.batch.keep([&](std::size_t i) { return verdicts.sequences[i].goes_on; });
  if (armed.batch.entries.empty())
    return;
  add(parts_.telemetry->armed_steps, 1);
  armed.sent = verdicts.end;
  flight_ = std::move(armed);
  begin_patience(int(flight_->batch.entries.size()));
  std::vector<Sequence*> running;
  for (const BatchEntry& entry : flight_->batch.entries)
    if (Sequence* s = find(entry.spec->id);
        s && s->phase == Sequence::Phase::running && s->epoch < entry.epoch) {
      s->in_flight = true;
      s->epoch = entry.epoch;
      running.push_back(s);
    }
  arm();
  for (Sequence* s : running)
    ensure_pages(*s);
}

/// True when the sequence has ended.
bool Scheduler::apply(const BatchEntry& entry, const Verdict& verdict, Commits& commits) {
  Sequence* s = find(verdict.sequence);
  if (!s || s->epoch != verdict.epoch || !s->in_flight)
    return false; // stale: it ended or lost its pages meanwhile
  s->in_flight = false;
  if (verdict.failed) {
    tell(self_, wiring_.facade,
         Failed{s->spec->id,
                {ErrorCode::internal, "the target model computed no distribution (NaN or infinity)",
                 "check the checkpoint, or run it with --dtype f32"}});
    return true;
  }
  s->cached = verdict.cached;
  s->prompt_logprobs.insert(s->prompt_logprobs.end(), verdict.prompt_logprobs.begin(),
                            verdict.prompt_logprobs.end());
  if (!entry.judges)
    return s->spec->max_tokens == 0 && entry.length == s->length() && commit(*s, verdict, commits);
  count(*s, entry, verdict);
  const bool ended = commit(*s, verdict, commits); // before the chain: it says where these are from
  follow_chain(*s, entry, verdict);
  if (!s->published && !ended) {
    s->published = true;
    publish(*s);
  }
  return ended;
}

/// Appends to the log up to where the sequence ends, and tells the facade. True when it has ended.
bool Scheduler::commit(Sequence& s, const Verdict& verdict, Commits& commits) {
  const auto room = std::min(s.budget(), parts_.max_model_len - s.length());
  const sampling::Cut cut =
      sampling::cut_at_end(verdict.tokens, s.spec->end_of_text, std::size_t(std::max(0, room)));
  Committed news;
  news.sequence = s.spec->id;
  news.first = s.output();
  const auto keep = std::ptrdiff_t(cut.keep);
  news.tokens.assign(verdict.tokens.begin(), verdict.tokens.begin() + keep);
  news.sources.assign(verdict.sources.begin(), verdict.sources.begin() + keep);
  for (std::size_t i = 0; i < cut.keep; ++i) // drafted under a verification, confirmed by this one
    if (news.sources[i] == TokenSource::draft && s.length() + int(i) < s.lookahead_until)
      news.sources[i] = TokenSource::lookahead;
  if (!verdict.logprobs.empty())
    news.logprobs.assign(verdict.logprobs.begin(), verdict.logprobs.begin() + keep);
  if (s.scores())
    news.prompt_logprobs = std::exchange(s.prompt_logprobs, {});
  news.end_of_text = cut.end_of_text;
  news.cached_tokens = s.cached_tokens;
  news.started = s.started;
  s.log->append(news.tokens);
  if (cut.keep > 0)
    s.rebuilds = 0;
  news.length = !cut.end_of_text && (s.budget() <= 0 || s.length() >= parts_.max_model_len);
  news.speculation = s.stats;
  if (s.chain)
    news.speculation.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  add(parts_.telemetry->generated_tokens, cut.keep);
  const bool ended = news.end_of_text || news.length;
  commits.sequences.push_back(std::move(news));
  return ended;
}

/// VerifyStep has decided what goes on: the chain, a fork of it, the next chain, or nothing.
void Scheduler::follow_chain(Sequence& s, const BatchEntry& entry, const Verdict& verdict) {
  const int frontier = entry.length + int(verdict.tokens.size());
  s.stats.drafted += verdict.forked;
  s.stats.forked += verdict.forked;
  if (verdict.next != s.chain) {
    retire_chain(s);
    s.chain = verdict.next;
  }
  s.lookahead_until = verdict.hit == Hit::none ? 0 : std::max(frontier, s.chain->bound());
  s.window = s.chain ? entry.next_window : 0;
  if (verdict.draft_late)
    distrust_draft();
  if (verdict.draft_lied) {
    retire_chain(s);
    parts_.has_draft = false;
    if (wiring_.supervisor) // so that nobody uses it again
      tell(self_, wiring_.supervisor, LeaveDraftOut{});
  }
}

void Scheduler::retire_chain(Sequence& s) {
  if (!s.chain)
    return;
  stop_waiting(); // nobody will finish it
  s.chain->close();
  s.stats.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  const std::uint64_t forked = s.chain->drop_forks(std::numeric_limits<int>::max());
  s.stats.drafted += forked;
  s.stats.forked += forked;
  s.chain = nullptr;
  s.window = 0;
}

void Scheduler::count(Sequence& s, const BatchEntry& entry, const Verdict& verdict) {
  Telemetry& t = *parts_.telemetry;
  const sampling::Plan plan = plan_for(s);
  s.stats.mode = plan.mode;
  s.stats.window = plan.window;
  ++s.stats.rounds;
  s.stats.judged += std::uint64_t(verdict.judged);
  s.stats.accepted += std::uint64_t(verdict.accepted);
  s.stats.lookahead_rounds += verdict.had_lookahead;
  s.stats.lookahead_hits += verdict.had_lookahead && verdict.hit == Hit::chain;
  s.stats.fork_hits += verdict.hit == Hit::fork;
  add(t.windows, verdict.judged > 0);
  add(t.window_tokens, std::max(verdict.window, verdict.judged));
  add(t.rounds, 1);
  add(t.judged, verdict.judged);
  add(t.accepted, verdict.accepted);
  add(t.lookahead_rounds, verdict.had_lookahead);
  add(t.lookahead_hits, verdict.had_lookahead && verdict.hit == Hit::chain);
  add(t.fork_hits, verdict.hit == Hit::fork);
  for (int k = 0; k < std::min<int>(verdict.accepted, int(t.accepted_by_position.size())); ++k)
    add(t.accepted_by_position[std::size_t(k)], 1);
  if (entry.chain && verdict.judged > 0)
    s.throttle.observe(verdict.judged, verdict.accepted);
  else if (!s.throttle.speculate())
    s.throttle.observe_plain();
}

/// What the round cost, for the policy and for `actor_overhead`.
void Scheduler::observe(sampling::RoundObservation round, const Flight& flight,
                        base::Duration draft_time) {
  const base::TimePoint end = now();
  const base::Duration took = end - last_verdict_.value_or(flight.sent);
  const bool continues = last_verdict_.has_value();
  last_verdict_ = end;
  round.round_seconds = base::seconds(took);
  round.draft_step_seconds =
      double(parts_.telemetry->draft_step_ns.load(std::memory_order_relaxed)) * 1e-9;
  round.fork_step_seconds =
      double(parts_.telemetry->draft_fork_step_ns.load(std::memory_order_relaxed)) * 1e-9;
  if (round.window == 0 && round.mode != SpeculationMode::off)
    round.mode = SpeculationMode::off; // nothing was there to judge
  policy_.observe(round);
  if (round.prefill || !continues || flight.mode == SpeculationMode::overlap)
    return;
  add(parts_.telemetry->decode_round_ns, took.count());
  add(parts_.telemetry->decode_lane_ns,
      std::int64_t(round.target_seconds * 1e9) + draft_time.count());
}

} // namespace paceline::actors
