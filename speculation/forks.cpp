#include "speculation/forks.hpp"

#include "speculation/limits.hpp"

#include <algorithm>

namespace paceline::speculation {

/// A token that a pass could draw: the next one of an existing fork, or the first one of a new
/// fork.
struct ForkSet::Candidate {
  double worth = 0;
  Fork* fork = nullptr;
  int position = 0;
  int rank = 0;
};

double Fork::worth(const sampling::Odds& odds) {
  for (; weighed < chain->drawn(); ++weighed)
    chance *= odds.accepted(chain->guesses(weighed));
  return chance;
}

void ForkSet::clear() {
  forks_.clear();
  opened_.clear();
}

void ForkSet::settle(const Chain& chain, int length, const sampling::Odds& odds) {
  const int settled = std::min(length - first_, int(opened_.size()));
  double reached = 1; // the chance, before the verdict, of what is certain now
  for (int position = first_; position < first_ + settled; ++position)
    reached *= odds.accepted(chain.guesses(position));
  opened_.erase(opened_.begin(), opened_.begin() + std::max(settled, 0));
  first_ = length;
  std::erase_if(forks_, [length](const auto& fork) { return fork->position < length; });
  for (const auto& fork : forks_)
    fork->chance /= std::max(reached, 1e-6);
}

void ForkSet::end() {
  for (const auto& fork : forks_)
    fork->chain->end_here();
}

std::vector<Fork*> ForkSet::choose(const Frontier& at, int fed, int context, gpu::KvPool& pool) {
  const sampling::Odds& odds = at.forking.odds;
  if (at.chain->forks_ended())
    return {};
  std::vector<Candidate> candidates;
  for (const auto& fork : forks_)
    if (fork->chain->next() >= 0)
      candidates.push_back({fork->worth(odds), fork.get()});
  // The last outcome is the token behind the last window that is judged this time or is in flight.
  const int last = at.chain->window_end() + at.forking.beyond;
  const int end = std::min({at.chain->drawn(), last + 1, fed + 1});
  first_ = at.length();
  opened_.resize(std::size_t(std::max(end - at.length(), int(opened_.size()))));
  double reached = 1;
  for (int position = at.length(); position < end; ++position) {
    const sampling::Guesses& guesses = at.chain->guesses(position);
    const std::uint32_t opened = opened_[std::size_t(position - at.length())];
    for (int rank = 0; rank < guesses.count; ++rank)
      if (!(opened >> rank & 1))
        candidates.push_back({odds.outcome(reached, guesses, rank), nullptr, position, rank});
    reached *= odds.accepted(guesses);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.worth > b.worth; });
  std::vector<Fork*> chosen;
  const std::size_t before = forks_.size();
  for (const Candidate& candidate : candidates) {
    if (int(chosen.size()) >= at.forking.rows || candidate.worth < at.forking.least)
      break;
    Fork* fork = candidate.fork ? candidate.fork : open(at, candidate, context, pool);
    if (fork)
      chosen.push_back(fork);
  }
  if (forks_.size() > before)
    at.chain->tell_forks();
  return chosen;
}

Fork* ForkSet::open(const Frontier& at, const Candidate& what, int context, gpu::KvPool& pool) {
  const auto [chance, none, position, rank] = what;
  const int longest = at.forking.beside ? at.chain->window_end() : position + 1 + at.forking.window;
  const int end = std::min(longest, context + 1);
  if (end <= position + 1 || int(forks_.size()) >= std::min(at.forking.most, limits::forks_max))
    return nullptr;
  auto fork = std::make_unique<Fork>();
  fork->position = fork->fed = position;
  fork->token = at.chain->guesses(position).tokens[std::size_t(rank)];
  fork->chance = chance;
  const int page_tokens = at.pages->page_tokens;
  const int first_page = position / page_tokens;
  const int last_page = std::max(position, end - 2) / page_tokens;
  fork->pages.assign(at.pages->ids.begin(), at.pages->ids.begin() + first_page);
  for (int page = first_page; page <= last_page; ++page) {
    auto taken = pool.take();
    if (!taken)
      return nullptr; // the sequences' own need comes first
    fork->pages.push_back(taken->id);
    fork->own.push_back(std::move(taken));
  }
  if (position % page_tokens != 0)
    fork->copy = gpu::PageCopy{at.pages->ids[std::size_t(first_page)], fork->own.front()->id};
  fork->chain = std::make_shared<Chain>(at.spec->id);
  fork->weighed = position + 1;
  fork->chain->begin_fork(position + 1, end, at.length(), int(forks_.size()) + 1);
  at.chain->add_fork(position, fork->token, fork->chain);
  opened_[std::size_t(position - at.length())] |= 1u << rank;
  forks_.push_back(std::move(fork));
  return forks_.back().get();
}

} // namespace paceline::speculation
