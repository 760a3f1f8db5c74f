#include "execution/alternatives.hpp"

#include "scheduling/round.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace paceline::execution {
namespace {

using scheduling::BatchEntry;
using speculation::Chain;

/// A fork, and the pass that it goes on from.
struct Candidate {
  Chain::Fork fork;
  const Branch* from = nullptr; ///< The branch whose pages it goes on from.
  bool begins = false; ///< It begins at the fork's position, and takes pages of its own there.
  int length = 0;
  int window = 0;
  int own = 0;
  double chance = 0;
};

/// Returns the last pass that has rows for this chain; if `position` is given, the pass among whose
/// outcomes that position is.
const Branch* last_of(std::span<const Branch> ahead, const Chain* chain,
                      std::optional<int> position = {}) {
  const auto fits = [&](const Branch& s) {
    return s.chain.get() == chain && (!position || (s.length <= *position && *position < s.end()));
  };
  const auto at = std::ranges::find_if(ahead | std::views::reverse, fits);
  return at == std::ranges::rend(ahead) ? nullptr : &*at;
}

/// Returns the probability that the fork's outcome comes true, given all committed tokens.
double chance_of(const BatchEntry& entry, const Chain::Fork& fork) {
  const sampling::Odds& odds = entry.next.forking.odds;
  const Chain& chain = *entry.round.chain;
  double reached = 1;
  for (int i = entry.logged(); i < fork.position; ++i)
    reached *= odds.accepted(chain.guesses(i));
  const sampling::Guesses& guesses = chain.guesses(fork.position);
  const int rank = guesses.rank(fork.token);
  return rank < 0 ? 0 : odds.outcome(reached, guesses, rank);
}

/// Makes a candidate. end: no row stands at or behind this position.
std::optional<Candidate> candidate(const BatchEntry& entry, int end, const Chain::Fork& fork,
                                   std::span<const Branch> ahead) {
  if (fork.chain->closed() || fork.position < entry.logged() || fork.position >= entry.length)
    return std::nullopt;
  Candidate c;
  c.fork = fork;
  if ((c.from = last_of(ahead, fork.chain.get()))) {
    c.length = c.from->end();
    c.own = c.from->own.value_or(c.length - 1);
    c.chance = c.from->chance;
    for (int i = c.from->length; i < std::min(c.length, fork.chain->drawn()); ++i)
      c.chance *= entry.next.forking.odds.accepted(fork.chain->guesses(i));
  } else if ((c.from = last_of(ahead, entry.round.chain.get(), fork.position))) {
    c.begins = true;
    c.length = fork.position + 1;
    c.own = std::min(fork.position, c.from->own.value_or(fork.position));
    c.chance = chance_of(entry, fork);
  } else {
    return std::nullopt;
  }
  c.window = std::min({fork.chain->drawn(), end, c.own + entry.forks.again_max - 1}) - c.length;
  return c.window < 0 ? std::nullopt : std::optional(c);
}

/// Returns the pages that it goes on from up to the first that is its own, and new ones for the
/// rest.
gpu::PageTableRef pages_for(const Candidate& c, gpu::KvPool& pool) {
  const gpu::PageTable& from = *c.from->pages;
  const int needed = (c.length + c.window - 1) / from.page_tokens + 1;
  const int kept =
      c.begins ? c.fork.position / from.page_tokens : std::min(needed, int(from.pages.size()));
  std::vector<gpu::PageRef> pages(from.pages.begin(), from.pages.begin() + kept);
  while (int(pages.size()) < needed) {
    gpu::PageRef page = pool.take();
    if (!page)
      return nullptr; // The sequences' own need comes first.
    pages.push_back(std::move(page));
  }
  return gpu::PageTable::extend(nullptr, from.page_tokens, std::move(pages));
}

Alternative made_of(const BatchEntry& entry, const Candidate& c, gpu::PageTableRef pages) {
  Alternative made;
  made.entry = scheduling::on_a_fork(entry, c.fork.chain, c.length, c.window, c.own);
  made.chance = c.chance;
  const auto page = std::size_t(c.fork.position / pages->page_tokens);
  if (c.begins && c.fork.position % pages->page_tokens != 0)
    made.copy = gpu::PageCopy{c.from->pages->ids[page], pages->ids[page]};
  made.entry.feed.pages = std::move(pages);
  for (int i = entry.logged(); i < c.length; ++i) {
    const Chain& chain = i < c.fork.position ? *entry.round.chain : *c.fork.chain;
    made.prefix.push_back(i == c.fork.position ? c.fork.token : chain.token(i));
  }
  return made;
}

} // namespace

std::vector<Alternative> alternatives(const BatchEntry& entry, int window,
                                      std::span<const Branch> ahead, gpu::KvPool& pool) {
  std::vector<Alternative> made;
  if (entry.forks.rows == 0 || pool.shape().state_bytes > 0) // A state is of one chain.
    return made;
  std::vector<Candidate> candidates;
  for (const Chain::Fork& fork : entry.round.chain->forks())
    if (auto c = candidate(entry, entry.length + window, fork, ahead))
      candidates.push_back(*std::move(c));
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::chance);
  int rows = entry.forks.rows;
  for (Candidate& c : candidates) {
    c.window = std::min(c.window, rows - 1);
    gpu::PageTableRef pages = c.window < 0 ? nullptr : pages_for(c, pool);
    if (!pages)
      break;
    rows -= c.window + 1;
    made.push_back(made_of(entry, c, std::move(pages)));
  }
  return made;
}

} // namespace paceline::execution
