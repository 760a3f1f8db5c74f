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
  return rows > sampling::limits::window_max + 1;
}

// ---- news ----

bool DraftPlanner::take(std::vector<Frontier> news) {
  bool changed = false;
  for (Frontier& frontier : news)
    if (DraftSequence* const s = sequences_.find_for(frontier)) {
      changed |= !s->at.chain && frontier.drafters.lookup;
      advance(*s, std::move(frontier));
    }
  sequences_.forget([&](const DraftSequence& s) { changed |= s.at.drafters.lookup; });
  for (auto& [id, s] : sequences_)
    if (s.at.chain->forks_ended() || s.at.chain->closed()) { // somebody needs their pages
      s.forks.clear();
      if (std::exchange(s.at.features.path, nullptr))
        s.at.features.count = s.at.features.path_from;
    }
  return changed;
}

void DraftPlanner::advance(DraftSequence& s, Frontier frontier) const {
  const bool new_residency = !s.at.residency || s.at.residency->epoch < frontier.residency->epoch;
  const bool same_chain = s.at.chain == frontier.chain;
  if (new_residency || !same_chain)
    s.forks.clear();
  else if (frontier.epoch != s.at.epoch)
    s.forks.settle(*frontier.chain, frontier.length(), frontier.forking.odds);
  if (new_residency) {
    s.settled = 0;
    const auto cached = frontier.log->first(frontier.residency->cached_at_grant);
    s.fed.assign(cached.begin(), cached.end());
    s.agreed = int(s.fed.size());
  }
  s.at = std::move(frontier);
  const int length = s.at.length();
  s.at.chain->release_q(length);
  while (s.agreed < std::min(length, int(s.fed.size())) &&
         s.fed[std::size_t(s.agreed)] == s.at.token_at(s.agreed))
    ++s.agreed;
  if (!same_chain || s.agreed < length)
    s.fed.resize(std::size_t(s.agreed));
  s.ends.resize(std::min(s.ends.size(), s.fed.size()));
  s.settled = std::min(s.settled, int(s.fed.size()));
  s.at.residency->cached.store(shares(s) ? s.agreed : 0, std::memory_order_release);
}

void DraftPlanner::abandon() {
  for (auto& [id, s] : sequences_) {
    s.at.chain->end_here();
    s.forks.end();
  }
  sequences_.clear();
}

// ---- passes ----

DraftPass DraftPlanner::plan() {
  DraftPass pass;
  int late = 0;
  int whole = 0;
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    late += reach.draws >= 0 && reach.draws < s.at.chain->window_end() && !reach.far();
    whole += writes_forks(s);
  }
  pass.hurries = late > 0;
  Budget budget{limits::draft_prefill_chunk, limits_.drawn};
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    const bool left_out = pass.hurries && reach.far();
    pass.leaves_out |= left_out || s.at.forking.rows > 0;
    if (!left_out)
      add_rows(pass, s, reach, budget);
  }
  if (map_)
    return pass;
  for (std::size_t i = 0, own = pass.parts.size(); i < own; ++i)
    if (DraftSequence& s = *pass.parts[i].sequence;
        pass.parts[i].draws >= 0 && s.at.forking.beside && may_fork(s))
      add_forks(pass, s);
  for (auto& [id, s] : sequences_)
    if (whole > late && writes_forks(s)) // the target does not wait for few whose windows are late
      add_forks(pass, s);
  // Whoever finds a window whole finds the forks beside it as far as they are.
  std::ranges::stable_partition(pass.parts, [](const DraftRows& rows) {
    return rows.fork && rows.sequence->at.forking.beside;
  });
  return pass;
}

bool DraftPlanner::may_fork(const DraftSequence& s) {
  return s.at.forking.rows > 0 && s.at.drafters.model && s.in_pages() && !s.at.chain->closed();
}

/// Says whether forks are written behind the window: it is whole, and its chain is still open.
bool DraftPlanner::writes_forks(const DraftSequence& s) {
  return may_fork(s) && !s.at.forking.beside && s.at.chain->drawn() >= s.at.chain->window_end();
}

/// Returns how many slots a sequence may use. A page has as many as the pool's shape says.
int DraftPlanner::context(const DraftSequence& s) const {
  const std::size_t pages = s.at.pages->ids.size();
  return std::min(limits_.context, int(pages) * pool_->shape().page_tokens);
}

/// Returns how many slots the token at `position` takes.
int DraftPlanner::count(const DraftSequence& s, int position) const {
  return map_ ? map_->count(position, s.at.token_at(position)) : 1;
}

/// Returns how many slots all tokens before `position` take.
int DraftPlanner::slot(const DraftSequence& s, int position) const {
  if (!map_)
    return position;
  const int known = std::min(position, int(s.ends.size()));
  int slots = known > 0 ? s.ends[std::size_t(known - 1)] : 0;
  for (int i = known; i < position; ++i)
    slots += count(s, i);
  return slots;
}

/// Returns how many committed tokens can be fed: they have room and, for a head, features.
int DraftPlanner::end_within(const DraftSequence& s, int context) const {
  const TargetFeatures& features = s.at.features;
  const int length = features.pages ? std::min(s.at.length(), features.count + 1) : s.at.length();
  if (!map_)
    return std::min(length, context);
  int end = std::min(int(s.ends.size()), length);
  for (int slots = slot(s, end); end < length; ++end)
    if ((slots += count(s, end)) > context)
      break;
  return end;
}

/// Returns how many of the fed tokens never have to be fed again.
int DraftPlanner::read_for_good(const DraftSequence& s) const {
  const int fed = int(s.fed.size());
  const TargetFeatures& features = s.at.features;
  return features.pages && s.settled < std::min(fed, features.count + 1) ? s.settled : fed;
}

/// Returns the position that is drawn next; -1: there is none, for now or at all.
int DraftPlanner::next_to_draw(const DraftSequence& s, int context) const {
  Chain& chain = *s.at.chain;
  const int draws = s.at.drafters.model ? chain.next() : -1;
  if (draws < 0)
    return -1;
  const bool read = !s.at.features.pages || s.at.length() <= s.at.features.count + 1;
  const bool fits = limits_.block > 0 ? draws < context : slot(s, draws) <= context;
  if (read && fits && !s.at.early_end.is_before(draws, chain, s.at.length()))
    return limits_.block == 0 || draws < s.at.length() + limits_.block ? draws : -1;
  chain.end_at(draws); // It is not wanted, or needs a token that has no room, or no features.
  return -1;
}

/// Returns how many positions are drawn from this one on. What a constraint forbids depends on the
/// token before. A verdict may meanwhile have lowered the chain's limit to where it stands.
int DraftPlanner::drawn_from(const DraftSequence& s, int draws, int context) const {
  if (limits_.block == 0 || s.at.spec->warping.constraint)
    return 1;
  const int end = std::min({s.at.chain->reach(), s.at.length() + limits_.block, context});
  return std::max(1, end - draws);
}

DraftPlanner::Reach DraftPlanner::reach_of(const DraftSequence& s) const {
  const int context = this->context(s);
  const int fed = read_for_good(s);
  const bool drafts = s.at.drafters.model;
  const auto reach = [&](int start, int end, int draws, int drawn) {
    return Reach{start, end, draws, drawn, slot(s, end) - slot(s, start)};
  };
  if (const int draws = next_to_draw(s, context); draws >= 0) {
    const int end = limits_.block > 0 ? s.at.length() : draws;
    const int start = std::min(fed, end - 1); // again: the last one's logits are needed
    return reach(start, end, draws, drawn_from(s, draws, context));
  }
  const int end = end_within(s, context);
  const bool later = !drafts && end - fed <= limits::reading_lag;
  return reach(std::min(fed, end), later ? std::min(fed, end) : end, -1, 0);
}

void DraftPlanner::add_rows(DraftPass& pass, DraftSequence& s, const Reach& reach,
                            Budget& budget) const {
  if (reach.draws >= 0 && budget.drawn == 0)
    return; // The next pass has room.
  DraftRows rows;
  rows.sequence = &s;
  rows.start = reach.start;
  rows.slot = slot(s, reach.start);
  int position = reach.start;
  for (; position < reach.end; ++position) {
    if (reach.far() && (budget.rows -= count(s, position)) < 0)
      break;
    add_token(rows, position);
  }
  if (position == reach.start)
    return;
  if (reach.draws >= 0 && position == reach.end) {
    rows.draws = reach.draws;
    rows.drawn = std::min(reach.drawn, budget.drawn);
    budget.drawn -= rows.drawn;
  }
  pass.parts.push_back(std::move(rows));
}

void DraftPlanner::add_token(DraftRows& rows, int position) const {
  rows.tokens.push_back(rows.sequence->at.token_at(position));
  if (!map_)
    return;
  const std::size_t before = rows.readings.size();
  map_->read(position, rows.tokens.back(), rows.readings);
  rows.counts.push_back(int(rows.readings.size() - before));
}

void DraftPlanner::add_forks(DraftPass& pass, DraftSequence& s) {
  for (Fork* fork : s.forks.choose(s.at, int(s.fed.size()), limits_.context, *pool_)) {
    if (pass.fork_rows >= limits_.fork_rows)
      return;
    DraftRows rows;
    rows.sequence = &s;
    rows.fork = fork;
    rows.start = rows.slot = fork->fed;
    rows.draws = fork->chain->next();
    rows.drawn = rows.draws >= 0 ? 1 : 0; // A verdict may have closed it.
    rows.tokens.push_back(rows.token_at(fork->fed));
    pass.parts.push_back(std::move(rows));
    ++pass.fork_rows;
  }
}

DraftPass DraftPlanner::plan_behind(const DraftPass& before) const {
  DraftPass pass;
  pass.leaves_out = before.leaves_out;
  for (std::size_t i = 0; i < before.parts.size(); ++i) {
    const DraftRows& part = before.parts[i];
    const int draws = part.chain().next(1);
    const Frontier& at = part.sequence->at;
    const bool forks_beside = at.forking.beside && at.forking.rows > 0;
    if (draws < 0 || draws > context(*part.sequence) || forks_beside ||
        at.early_end.is_before(draws, part.chain(), at.length()))
      continue;
    DraftRows rows;
    rows.sequence = part.sequence;
    rows.start = rows.slot = part.draws;
    rows.tokens = {0};
    rows.draws = draws;
    rows.drawn = 1;
    rows.follows = int(i);
    pass.hurries |= draws < part.chain().window_end();
    pass.parts.push_back(std::move(rows));
  }
  if (pass.leaves_out && !pass.hurries)
    pass.parts.clear();
  return pass;
}

void DraftPlanner::begins(const DraftRows& rows) {
  if (rows.fork || rows.pending())
    return;
  DraftSequence& s = *rows.sequence;
  s.fed.resize(std::size_t(rows.start));
  s.ends.resize(std::min(s.ends.size(), s.fed.size()));
}

void DraftPlanner::fed(DraftRows& rows) {
  if (rows.fork) {
    ++rows.fork->fed;
    return;
  }
  DraftSequence& s = *rows.sequence;
  s.fed.insert(s.fed.end(), rows.tokens.begin(), rows.tokens.end());
  for (int slot = rows.slot; const int count : rows.counts)
    s.ends.push_back(slot += count);
  s.settled = std::min(int(s.fed.size()), s.at.features.count + 1);
  if (s.settled > s.at.features.count)
    s.at.features.path = nullptr;
  const int read = std::min(int(s.fed.size()), s.at.length());
  s.at.residency->read.store(read, std::memory_order_relaxed);
  if (rows.counts.empty() && s.in_pages()) // else they are this sequence's alone
    s.at.residency->cached.store(read, std::memory_order_release);
}

} // namespace paceline::speculation
