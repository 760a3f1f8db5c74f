#include "scheduling/committer.hpp"

#include "sampling/stop.hpp"
#include "scheduling/round.hpp"

#include <algorithm>
#include <utility>

namespace paceline::scheduling {

namespace {

Error no_distribution(const SequenceSpec& spec) {
  const sampling::Warping& w = spec.warping;
  if (w.constraint)
    return {
        ErrorCode::invalid_argument,
        "no token can be drawn: Request::constraint leaves none beside Sampling::logit_bias and "
        "Sampling::allowed_token_ids, or takes too long to say which, or the target model computed "
        "no distribution",
        "leave some tokens possible, or ask for a simpler form"};
  if (!w.logit_bias.empty() || !w.allowed.empty() || w.min_tokens > 0)
    return {ErrorCode::invalid_argument,
            "no token can be drawn: Sampling::logit_bias, Sampling::allowed_token_ids and "
            "Request::min_tokens leave none, or the target model computed no distribution",
            "leave some tokens possible"};
  return {ErrorCode::internal, "the target model computed no distribution (NaN or infinity)",
          "check the checkpoint, or run it with EngineOptions::dtype = f32"};
}

} // namespace

bool Committer::apply(Turn& turn, Sequence& s, const BatchEntry& entry, const Verdict& verdict,
                      Commits& commits) {
  s.in_flight = s.epoch != entry.epoch; // or chunks of its prompt are behind this one
  if (!s.chunks.empty())
    s.chunks.pop_front();
  if (verdict.failed) {
    turn.act(Failed{s.spec->id, no_distribution(*s.spec)});
    return true;
  }
  s.cached = verdict.cached;
  s.feeds_again = entry.feed.own.has_value() || verdict.tree_tokens > 0;
  s.prompt_logprobs.insert(s.prompt_logprobs.end(), verdict.prompt_logprobs.begin(),
                           verdict.prompt_logprobs.end());
  if (!entry.round.judges)
    return s.spec->max_tokens == 0 && entry.length == s.length() && commit(s, verdict, commits);
  s.stats.windows_cut |= verdict.draft_late || cut(s, entry);
  if (verdict.tokens.empty()) { // every token waits for a bound token that is late
    follow_chain(turn, s, entry, verdict);
    return false;
  }
  count(s, verdict);
  drafting_.planning.learn(s, verdict);
  const bool ended = commit(s, verdict, commits); // first, as the chain says where these are from
  follow_chain(turn, s, entry, verdict);
  if (!s.published && !ended) {
    s.published = true;
    residency_.publish(turn, s);
  }
  return ended;
}

/// Appends to the log up to where the sequence ends. Returns whether it has ended.
bool Committer::commit(Sequence& s, const Verdict& verdict, Commits& commits) {
  const auto room = std::min(s.budget(), config_.max_model_len - s.length());
  const sampling::Cut cut =
      sampling::cut_at_end(verdict.tokens, s.spec->end_of_text, std::size_t(std::max(0, room)));
  Committed news = news_of(s, verdict, cut.keep);
  news.end_of_text = cut.end_of_text;
  s.log->append(news.tokens);
  order_.charge(s, int(cut.keep));
  if (cut.keep > 0)
    s.recomputations = 0;
  news.length = !cut.end_of_text && (s.budget() <= 0 || s.length() >= config_.max_model_len);
  base::add(config_.telemetry->generated_tokens, cut.keep);
  const bool ended = news.end_of_text || news.length;
  commits.sequences.push_back(std::move(news));
  return ended;
}

/// Returns the news of the first `keep` tokens of the verdict.
Committed Committer::news_of(Sequence& s, const Verdict& verdict, std::size_t keep) {
  Committed news;
  const auto end = std::ptrdiff_t(keep);
  news.sequence = s.spec->id;
  news.first = s.output();
  news.tokens.assign(verdict.tokens.begin(), verdict.tokens.begin() + end);
  news.sources.assign(verdict.sources.begin(), verdict.sources.begin() + end);
  for (std::size_t i = 0; i < keep; ++i) // drafted during one verification, confirmed by this
    if (news.sources[i] == TokenSource::draft && s.length() + int(i) < s.lookahead_until)
      news.sources[i] = TokenSource::lookahead;
  if (!verdict.logprobs.empty())
    news.logprobs.assign(verdict.logprobs.begin(), verdict.logprobs.begin() + end);
  if (s.scores())
    news.prompt_logprobs = std::exchange(s.prompt_logprobs, {});
  news.cached_tokens = s.cached_tokens;
  news.started = s.started;
  news.speculation = s.stats;
  if (s.chain)
    news.speculation.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  return news;
}

/// Goes on with the chain that the target's lane has turned to already (round.hpp gives both the
/// same).
void Committer::follow_chain(Turn& turn, Sequence& s, const BatchEntry& entry,
                             const Verdict& verdict) {
  const Resolution resolved = resolve(entry, verdict);
  s.stats.drafted += verdict.forked;
  s.stats.forked += verdict.forked;
  if (resolved.chain != s.chain) {
    drafting_.retire_chain(s, resolved.chain.get());
    s.chain = resolved.chain;
  }
  const bool ahead = s.chain && verdict.hit != Hit::none; // a fork may have gone with its draft
  s.lookahead_until = ahead ? std::max(resolved.length, s.chain->bound()) : 0;
  s.window = resolved.window;
  s.drafters = entry.next.drafters;
  if (verdict.draft_late)
    drafting_.waits.was_late(s, turn.now);
  if (verdict.inconsistent_draw) {
    drafting_.retire_chain(s);
    drafting_.disable(turn);
  }
}

/// Says whether less was judged, or is drafted next, than the plan and what is left of the output
/// say. A look-up or a form that knows no more does not count as late.
bool Committer::cut(const Sequence& s, const BatchEntry& entry) const {
  const int room = std::min(s.budget(), config_.max_model_len - s.length()) - 1;
  const int wanted = std::min(s.window, room);
  const ChainRef& chain = entry.round.chain;
  const bool knew_no_more = (config_.proposes() || !s.drafters.model) && chain &&
                            chain->drawn() <= entry.length + entry.round.window &&
                            chain->settled(entry.length + wanted);
  if (entry.round.window < wanted && !knew_no_more)
    return true;
  const speculation::Plan plan = drafting_.planning.plan_for(s);
  const bool drafts = config_.has_draft && plan.window > 0;
  return drafts && !drafting_.planning.pauses(s) && room > 1 && !entry.next.chain;
}

/// Counts by drafter. Where there are both, the look-up comes before the model; the form of the
/// answer is the last.
void Committer::count_drafters(Sequence& s, const Verdict& verdict) {
  const std::size_t drafters = config_.drafters.size();
  const bool both = drafters > 1;
  const auto count = [&](std::size_t i, int judged, int accepted) {
    s.stats.drafters[i].judged += std::uint64_t(judged);
    s.stats.drafters[i].accepted += std::uint64_t(accepted);
    base::add(config_.telemetry->by_drafter[i].judged, judged);
    base::add(config_.telemetry->by_drafter[i].accepted, accepted);
  };
  if (both)
    count(0, verdict.looked_up, verdict.looked_up_accepted);
  if (drafters > 0)
    count(drafters - 1, verdict.drafters_judged() - verdict.looked_up,
          verdict.drafters_accepted() - verdict.looked_up_accepted);
  if (s.stats.drafters.size() > drafters)
    count(drafters, verdict.formed_judged, verdict.formed_accepted);
}

void Committer::count(Sequence& s, const Verdict& verdict) {
  count_drafters(s, verdict);
  const bool hit = verdict.had_lookahead && verdict.hit == Hit::chain;
  const speculation::Plan plan = drafting_.planning.plan_for(s);
  s.stats.mode = plan.mode;
  s.stats.window = plan.window;
  ++s.stats.rounds;
  s.stats.judged += std::uint64_t(verdict.judged);
  s.stats.accepted += std::uint64_t(verdict.accepted);
  s.stats.lookahead_rounds += verdict.had_lookahead;
  s.stats.lookahead_hits += hit;
  s.stats.fork_hits += verdict.hit == Hit::fork;
  s.stats.tree_tokens += std::uint64_t(verdict.tree_tokens);
  base::Telemetry& t = *config_.telemetry;
  base::add(t.windows, verdict.judged > 0);
  base::add(t.window_tokens, std::max(verdict.window, verdict.judged));
  base::add(t.rounds, 1);
  base::add(t.judged, verdict.judged);
  base::add(t.accepted, verdict.accepted);
  base::add(t.lookahead_rounds, verdict.had_lookahead);
  base::add(t.lookahead_hits, hit);
  base::add(t.fork_hits, verdict.hit == Hit::fork);
  base::add(t.tree_rows, verdict.tree_rows);
  base::add(t.tree_tokens, verdict.tree_tokens);
  for (int k = 0; k < std::min<int>(verdict.chain_accepted(), int(t.accepted_by_position.size()));
       ++k)
    base::add(t.accepted_by_position[std::size_t(k)], 1);
}

} // namespace paceline::scheduling
