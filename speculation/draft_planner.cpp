#include "speculation/draft_planner.hpp"

#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::speculation {

TokenId DraftRows::token_at(int position) const {
  if (!fork || position < fork->position)
    return sequence->at.token_at(position);
  return position == fork->position ? fork->token : fork->chain->token(position);
}

bool DraftPlanner::Reach::far() const {
  return end - start > sampling::limits::window_max + 1;
}

// ---- news ----

void DraftPlanner::take(std::vector<Frontier> news) {
  for (Frontier& frontier : news)
    if (!frontier.residency->over.load(std::memory_order_acquire))
      take_one(std::move(frontier));
  std::erase_if(sequences_, [](const auto& entry) {
    return entry.second.at.residency->over.load(std::memory_order_acquire);
  });
  for (auto& [id, s] : sequences_)
    if (s.at.chain->forks_ended()) // somebody needs their pages
      s.forks.clear();
}

void DraftPlanner::take_one(Frontier frontier) {
  DraftSequence& s = sequences_[frontier.spec->id];
  const bool new_residency = !s.at.residency || s.at.residency->epoch < frontier.residency->epoch;
  if (!new_residency &&
      (frontier.epoch < s.at.epoch || frontier.residency->epoch < s.at.residency->epoch))
    return; // older news than what is known
  if (new_residency || frontier.epoch != s.at.epoch)
    s.forks.clear();
  if (new_residency) {
    const auto cached = frontier.log->first(frontier.residency->cached_at_grant);
    s.fed.assign(cached.begin(), cached.end());
    s.agreed = int(s.fed.size());
  }
  const bool same_chain = s.at.chain == frontier.chain;
  s.at = std::move(frontier);
  const int length = s.at.length();
  s.at.chain->release_q(length);
  while (s.agreed < std::min(length, int(s.fed.size())) &&
         s.fed[std::size_t(s.agreed)] == s.at.token_at(s.agreed))
    ++s.agreed;
  if (!same_chain || s.agreed < length)
    s.fed.resize(std::size_t(s.agreed));
  s.at.residency->cached.store(s.agreed, std::memory_order_release);
}

void DraftPlanner::abandon() {
  for (auto& [id, s] : sequences_) {
    s.at.chain->end_at(s.at.chain->drawn());
    s.forks.end();
  }
  sequences_.clear();
}

// ---- passes ----

DraftPass DraftPlanner::plan() {
  DraftPass pass;
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    pass.hurries |= reach.draws >= 0 && reach.draws < s.at.chain->window_end() && !reach.far();
  }
  int budget = limits::draft_prefill_chunk;
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    const bool left_out = pass.hurries && reach.far();
    pass.leaves_out |= left_out || s.at.forking.rows > 0;
    if (!left_out)
      add_rows(pass, s, reach, budget);
  }
  if (!pass.hurries)
    add_forks(pass);
  return pass;
}

int DraftPlanner::context(const DraftSequence& s) const {
  return std::min(limits_.context, s.at.pages->capacity());
}

DraftPlanner::Reach DraftPlanner::reach_of(const DraftSequence& s) const {
  const int context = this->context(s);
  const int fed = int(s.fed.size());
  const int draws = s.at.chain->next();
  if (draws >= 0 && draws <= context) // the last token is fed again when all are: for its logits
    return {std::min(fed, draws - 1), draws, draws};
  if (draws > context) // its logits would need a token that has no room
    s.at.chain->end_at(draws);
  const int end = std::min(s.at.length(), context);
  return {std::min(fed, end), end, -1};
}

void DraftPlanner::add_rows(DraftPass& pass, DraftSequence& s, const Reach& reach, int& budget) {
  const int missing = reach.end - reach.start;
  const int count = reach.far() ? std::min(missing, budget) : missing;
  if (count == 0)
    return;
  if (reach.far())
    budget -= count;
  DraftRows rows;
  rows.sequence = &s;
  rows.start = reach.start;
  rows.draws = count == missing ? reach.draws : -1;
  for (int i = reach.start; i < reach.start + count; ++i)
    rows.tokens.push_back(s.at.token_at(i));
  pass.parts.push_back(std::move(rows));
}

/// Only when nobody waits for a window, and for sequences whose own window is whole.
void DraftPlanner::add_forks(DraftPass& pass) {
  for (auto& [id, s] : sequences_) {
    const Frontier& at = s.at;
    if (at.forking.rows == 0 || at.chain->closed() || at.chain->drawn() < at.chain->window_end())
      continue;
    for (Fork* fork : s.forks.choose(at, int(s.fed.size()), limits_.context, *pool_)) {
      if (pass.fork_rows >= limits_.fork_rows)
        return;
      DraftRows rows;
      rows.sequence = &s;
      rows.fork = fork;
      rows.start = fork->fed;
      rows.draws = fork->chain->next();
      rows.tokens.push_back(rows.token_at(fork->fed));
      pass.parts.push_back(std::move(rows));
      ++pass.fork_rows;
    }
  }
}

DraftPass DraftPlanner::plan_behind(const DraftPass& before) const {
  DraftPass pass;
  pass.leaves_out = before.leaves_out;
  for (std::size_t i = 0; i < before.parts.size(); ++i) {
    const DraftRows& part = before.parts[i];
    const int draws = part.chain().next(1);
    if (draws < 0 || draws > context(*part.sequence))
      continue;
    DraftRows rows;
    rows.sequence = part.sequence;
    rows.start = part.draws;
    rows.tokens = {0};
    rows.draws = draws;
    rows.follows = int(i);
    pass.hurries |= draws < part.chain().window_end();
    pass.parts.push_back(std::move(rows));
  }
  if (pass.leaves_out && !pass.hurries)
    pass.parts.clear();
  return pass;
}

void DraftPlanner::begins(const DraftRows& rows) {
  if (!rows.fork && !rows.pending())
    rows.sequence->fed.resize(std::size_t(rows.start));
}

void DraftPlanner::fed(DraftRows& rows) {
  if (rows.fork) {
    ++rows.fork->fed;
    return;
  }
  DraftSequence& s = *rows.sequence;
  s.fed.insert(s.fed.end(), rows.tokens.begin(), rows.tokens.end());
  s.at.residency->cached.store(std::min(int(s.fed.size()), s.at.length()),
                               std::memory_order_release);
}

} // namespace paceline::speculation
