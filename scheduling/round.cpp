#include "scheduling/round.hpp"

#include "sampling/stop.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::scheduling {
namespace {

constexpr int all_positions = std::numeric_limits<int>::max();

Resolution resolution(const BatchEntry& entry, const Verdict& verdict, ChainRef chain) {
  Resolution resolved;
  resolved.length = entry.length + int(verdict.tokens.size());
  resolved.chain = std::move(chain);
  resolved.window = resolved.chain ? entry.next.window : 0;
  resolved.window_end = resolved.length + entry.next.window;
  resolved.limit = resolved.window_end + entry.next.lookahead;
  return resolved;
}

/// Returns the fork that was drafted for just this verdict.
ChainRef fork_behind(const BatchEntry& entry, const Verdict& verdict) {
  const int length = entry.length + int(verdict.tokens.size());
  return entry.round.chain->fork(length - 1, verdict.tokens.back());
}

/// Says whether nobody waits for the next step: it was cancelled or evicted, or has its last token.
bool is_over(const BatchEntry& entry, const Verdict& verdict) {
  const std::vector<TokenId>& tokens = verdict.tokens;
  return (entry.round.chain && entry.round.chain->closed()) ||
         sampling::cut_at_end(tokens, entry.spec->end_of_text, tokens.size()).end_of_text;
}

} // namespace

Resolution resolve(const BatchEntry& entry, const Verdict& verdict) {
  switch (verdict.hit) {
  case Hit::chain: return resolution(entry, verdict, entry.round.chain);
  case Hit::fork: return resolution(entry, verdict, fork_behind(entry, verdict));
  case Hit::none: break;
  }
  return resolution(entry, verdict, entry.next.chain);
}

// A fork is looked up once: whoever ends the sequence meanwhile drops all of them. Behind a path
// there is none: the chain's forks stand behind its own tokens.
Resolution turn_over(const BatchEntry& entry, Verdict& verdict) {
  const ChainRef& judged = entry.round.chain;
  const bool misses = judged && verdict.hit != Hit::chain && !verdict.failed;
  const ChainRef fork = misses && verdict.tree_tokens == 0 ? fork_behind(entry, verdict) : nullptr;
  if (fork)
    verdict.hit = Hit::fork;
  Resolution resolved = fork ? resolution(entry, verdict, fork) : resolve(entry, verdict);
  resolved.over = is_over(entry, verdict); // before a miss closes the chain
  if (misses) {
    judged->close();
    verdict.forked = judged->drop_forks(all_positions, resolved.chain.get());
  } else if (verdict.hit == Hit::chain) {
    judged->drop_forks(resolved.length);
  }
  if (verdict.hit != Hit::none)
    resolved.chain->extend(resolved.window_end, resolved.limit);
  else if (resolved.chain)
    resolved.chain->begin(resolved.length, resolved.window_end, resolved.limit);
  return resolved;
}

BatchEntry on_a_fork(const BatchEntry& built, ChainRef fork, int length, int window, int own) {
  BatchEntry entry = built;
  entry.length = length;
  entry.assumed = length - built.logged();
  entry.feed.cached = length - 1;
  entry.feed.again = 0;
  entry.feed.own = own;
  entry.round.chain = std::move(fork);
  entry.round.window = window;
  entry.round.judge_lookahead =
      length + window + 1 < built.spec->prompt_tokens + built.spec->max_tokens;
  return entry;
}

namespace {

/// Returns the drafters' tokens of the window that should be accepted, by how sure they were.
std::optional<double> expected(const BatchEntry& entry, int window) {
  const sampling::Odds& odds = entry.next.early_end.odds;
  double tokens = 0;
  double reached = 1;
  for (int i = 0; i < window; ++i) {
    if (entry.round.chain->writer(entry.length + i) == speculation::Writer::form)
      continue;
    const sampling::Guesses& guesses = entry.round.chain->guesses(entry.length + i);
    if (guesses.count == 0)
      return std::nullopt;
    tokens += reached *= odds.accepted(guesses);
  }
  return tokens;
}

} // namespace

void note_guesses(const BatchEntry& entry, Verdict& verdict) {
  if (entry.next.early_end.least > 0)
    verdict.expected = expected(entry, verdict.window);
  const int judged = verdict.chain_judged();
  const int accepted = verdict.chain_accepted();
  for (int i = 0; i < std::max(verdict.window, judged); ++i) {
    const speculation::Writer writer = entry.round.chain->writer(entry.length + i);
    const bool formed = writer == speculation::Writer::form;
    verdict.formed += formed;
    if (i >= judged)
      continue;
    if (const auto& guesses = entry.round.chain->guesses(entry.length + i); guesses.count > 0)
      verdict.by_margin.add(guesses.margin, i < accepted);
    const bool looked_up = writer == speculation::Writer::lookup;
    verdict.looked_up += looked_up;
    verdict.looked_up_accepted += looked_up && i < accepted;
    verdict.formed_judged += formed;
    verdict.formed_accepted += formed && i < accepted;
  }
  if (judged == accepted || int(verdict.tokens.size()) <= accepted)
    return; // nothing was rejected, or nothing could be drawn in its place
  const sampling::Guesses& guesses = entry.round.chain->guesses(entry.length + accepted);
  verdict.guesses = guesses.count;
  verdict.guess_rank = guesses.rank(verdict.tokens[std::size_t(accepted)]);
}

} // namespace paceline::scheduling
