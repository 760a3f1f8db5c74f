// What the chains of a guest have got, as an engine is told.
#include "nodes/draft_forking.hpp"
#include "nodes/guest.hpp"
#include "nodes/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;

namespace {

/// How many numbers of q the news have.
std::size_t numbers_in(const DraftedTokens& news) {
  std::size_t numbers = 0;
  for (const auto& row : news.q)
    numbers += row.size();
  for (const DraftedFork& fork : news.forks)
    for (const auto& row : fork.q)
      numbers += row.size();
  return numbers;
}

} // namespace

/// News come from the draft's lane, or at once; what comes at a time makes one message.
void Guest::await(Sequence& s, int position) {
  s.awaited = position;
  s.chain->notify_at(position, std::make_shared<speculation::Gate>(1, telling()));
}

std::function<void()> Guest::telling() const {
  return [told = told_, me = caf::actor_cast<caf::actor_addr>(self_)] {
    if (!told->exchange(true))
      if (const auto guest = caf::actor_cast<caf::actor>(me))
        messages::tell(guest, WindowsReady{});
  };
}

void Guest::collect() {
  told_->store(false);
  Drafted news;
  std::size_t numbers = 0;
  const auto send = [&] {
    if (!news.chains.empty())
      tell(self_, link_, std::exchange(news, {}));
    numbers = 0;
  };
  for (auto& [id, s] : sequences_) {
    DraftedTokens of;
    of.sequence = id;
    if (!add_news(s, of))
      continue;
    news.step = s.chain->pace().step;
    numbers += numbers_in(of);
    news.chains.push_back(std::move(of));
    if (numbers > limits::frame_numbers_max)
      send();
  }
  send();
  send_spans();
}

/// A window that is whole, or the lookahead behind it; forks that have been opened, and what they
/// have got. False: there is nothing to be said yet.
bool Guest::add_news(Sequence& s, DraftedTokens& news) {
  news.chain = s.number;
  news.first = s.sent;
  const bool due = s.awaited > 0 && s.chain->settled(s.awaited);
  add_opened(s, news);
  if (due)
    add_tokens(s, news);
  if (due || s.awaited == 0)
    add_forks(s, news);
  return due || !news.opened.empty() || !news.forks.empty();
}

void Guest::add_tokens(Sequence& s, DraftedTokens& news) {
  news.read = s.reads;
  const int until = s.reads ? s.sent : s.chain->drawn();
  news.ends = s.chain->drawn() < s.awaited;
  for (; s.sent < until; ++s.sent) {
    news.tokens.push_back(s.chain->token(s.sent));
    if (s.guesses)
      news.guesses.push_back(guesses_for_engine(s.chain->guesses(s.sent)));
    if (s.spec->needs_q())
      news.q.push_back(row_of(s.chain->q(s.sent)));
  }
  s.awaited = 0;
  if (!news.ends && !s.reads && s.sent < s.chain->limit())
    await(s, s.chain->limit());
}

/// The engine binds all of a fork when it hears of it. So it is told at once, whatever the fork
/// will say and however long that takes.
void Guest::add_opened(Sequence& s, DraftedTokens& news) const {
  for (const Chain::Fork& fork : s.chain->forks()) {
    const auto known = [&](const Fork& each) { return each.chain == fork.chain; };
    if (std::ranges::any_of(s.forks, known))
      continue;
    const Chain& chain = *fork.chain;
    const auto frontier = int(chain.attempt() % (1u << speculation::limits::frontier_bits));
    news.opened.push_back({chain.attempt(), std::uint8_t(fork.position - frontier),
                           std::uint8_t(chain.limit() - chain.start()), fork.token});
    s.forks.push_back({fork.chain, fork.position, chain.limit(), chain.start()});
    fork.chain->notify_at(chain.limit(), std::make_shared<speculation::Gate>(1, telling()));
  }
}

/// Forks go out when they are whole: with the lookahead, or else when all of them are.
void Guest::add_forks(Sequence& s, DraftedTokens& news) const {
  const auto whole = [](const Fork& fork) { return fork.chain->settled(fork.end); };
  if (s.awaited == 0 && news.tokens.empty() && !std::ranges::all_of(s.forks, whole))
    return;
  for (Fork& fork : s.forks) {
    if (fork.told || !whole(fork))
      continue;
    fork.told = true;
    DraftedFork& drafted = news.forks.emplace_back();
    drafted.attempt = fork.chain->attempt();
    for (; fork.sent < std::min(fork.chain->drawn(), fork.end); ++fork.sent) {
      drafted.tokens.push_back(fork.chain->token(fork.sent));
      if (s.spec->needs_q())
        drafted.q.push_back(row_of(fork.chain->q(fork.sent)));
    }
  }
}

/// Without its zeros.
std::vector<TokenProbability> Guest::row_of(const float* q) const {
  std::vector<TokenProbability> row;
  for (TokenId token = 0; token < wanted_.vocabulary; ++token)
    if (q[token] > 0)
      row.push_back({token, q[token]});
  return row;
}

} // namespace paceline::nodes
