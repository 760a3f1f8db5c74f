#include "speculation/lookup/suffix_drafter.hpp"

#include "speculation/limits.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::speculation {
namespace {

/// Changes counts as the request's temperature changes probabilities.
void warp(std::vector<TokenWeight>& counts, float temperature) {
  if (temperature <= 0 || temperature == 1)
    return;
  const float most = counts.front().weight;
  for (TokenWeight& token : counts)
    token.weight = std::pow(token.weight / most, 1 / temperature);
}

} // namespace

void SuffixDrafter::begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) {
  Text& text = texts_[sequence.id];
  text.scope = sequence.scope;
  text.temperature = sequence.sampling.temperature;
  text.begun = tokens.size();
  index(text, tokens);
}

void SuffixDrafter::end(std::uint64_t sequence, std::span<const TokenId> tokens) {
  const auto at = texts_.find(sequence);
  if (at == texts_.end())
    return;
  const std::size_t begun = std::min(at->second.begun, tokens.size());
  outputs_.add(at->second.scope, tokens.subspan(begun));
  texts_.erase(at);
}

void SuffixDrafter::propose(std::span<DraftTask* const> tasks) {
  for (DraftTask* task : tasks)
    if (const auto at = texts_.find(task->sequence()); at != texts_.end())
      propose(at->second, *task);
}

// ---- what is known of a text ----

void SuffixDrafter::index(Text& text, std::span<const TokenId> committed) {
  outputs_.refresh(text.scope, text.others);
  while (text.indexed < committed.size()) {
    append(text, committed[text.indexed++]);
    if (text.own.bytes() > memory_ / texts_.size())
      forget_half(text, committed.first(text.indexed));
  }
}

/// Compares the token with what the match says, before anything learns of the token.
void SuffixDrafter::append(Text& text, TokenId token) {
  if (text.indexed > text.begun) { // the prompt is not predicted
    const Match match = longest(text, {});
    const int length = match.in->followers(match.place, limits::lookup_followers, followers_);
    if (length > 0)
      text.odds.observe(length, followers_.size() == 1, followers_.front().token == token);
  }
  text.own.append(token);
  for (RecentOutputs::Place& other : text.others)
    other.in = outputs_.book(other.book)->follow(other.in, token);
}

/// Indexes the text anew, from only the later half of what is known of it.
void SuffixDrafter::forget_half(Text& text, std::span<const TokenId> known) {
  const auto kept = known.last(std::min(known.size(), text.own.size() / 2));
  text.own = {};
  for (const TokenId token : kept)
    text.own.append(token);
}

SuffixDrafter::Match SuffixDrafter::longest(const Text& text,
                                            std::span<const TokenId> drafted) const {
  const auto behind = [&](Match match) {
    for (const TokenId token : drafted)
      match.follow(token);
    return match;
  };
  Match best = behind({&text.own, text.own.repeated()});
  for (const RecentOutputs::Place& other : text.others)
    if (const Match match = behind({outputs_.book(other.book), other.in});
        match.place.length > best.place.length)
      best = match;
  return best;
}

// ---- proposals ----

void SuffixDrafter::propose(Text& text, DraftTask& task) {
  const auto context = task.context();
  index(text, context.first(task.committed()));
  Match match = longest(text, context.subspan(task.committed()));
  for (double chance = 1; task.wanted() > 0;) {
    const int length = match.in->followers(match.place, limits::lookup_followers, followers_);
    if (length == 0)
      return;
    const double right = text.odds.right(length, followers_.size() == 1);
    chance *= right;
    if (chance < limits::lookup_chance_min || right < task.chance_wanted())
      return;
    warp(followers_, text.temperature);
    match.follow(task.draw(followers_));
  }
}

} // namespace paceline::speculation
