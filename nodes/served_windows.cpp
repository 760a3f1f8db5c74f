// The news that a served sequence sends its engine about its chain.
#include "nodes/draft_forking.hpp"
#include "nodes/served_sequence.hpp"
#include "speculation/limits.hpp"

#include <algorithm>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;

void ServedSequence::await(int position) {
  awaited_ = position;
  chain_->notify_at(position, std::make_shared<speculation::Gate>(1, common_->tell));
}

bool ServedSequence::add_news(DraftedTokens& news) {
  news.sequence = spec_->id;
  news.chain = number_;
  news.first = sent_;
  const bool due = awaited_ > 0 && chain_->settled(awaited_);
  add_opened(news);
  if (due)
    add_tokens(news);
  if (due || awaited_ == 0)
    add_forks(news);
  return due || !news.opened.empty() || !news.forks.empty();
}

void ServedSequence::add_tokens(DraftedTokens& news) {
  news.read = reads_;
  const int until = reads_ ? sent_ : chain_->drawn();
  news.ends = chain_->drawn() < awaited_;
  for (; sent_ < until; ++sent_) {
    news.tokens.push_back(chain_->token(sent_));
    if (guesses_)
      news.guesses.push_back(guesses_for_engine(chain_->guesses(sent_)));
    if (spec_->needs_q())
      news.q.push_back(row_of(chain_->q(sent_)));
  }
  awaited_ = 0;
  if (!news.ends && !reads_ && sent_ < chain_->limit())
    await(chain_->limit());
}

/// Announces new forks at once, since the engine binds the whole fork when it hears of it, whatever
/// its tokens will be and however long they take.
void ServedSequence::add_opened(DraftedTokens& news) {
  for (const Chain::Fork& fork : chain_->forks()) {
    const auto known = [&](const Fork& each) { return each.chain == fork.chain; };
    if (std::ranges::any_of(forks_, known))
      continue;
    const Chain& chain = *fork.chain;
    const auto frontier = int(chain.attempt() % (1u << speculation::limits::frontier_bits));
    news.opened.push_back({chain.attempt(), std::uint8_t(fork.position - frontier),
                           std::uint8_t(chain.limit() - chain.start()), fork.token});
    forks_.push_back({fork.chain, fork.position, chain.limit(), chain.start()});
    fork.chain->notify_at(chain.limit(), std::make_shared<speculation::Gate>(1, common_->tell));
  }
}

/// Adds forks that are whole: together with the lookahead, or else when all of them are whole.
void ServedSequence::add_forks(DraftedTokens& news) {
  const auto whole = [](const Fork& fork) { return fork.chain->settled(fork.end); };
  if (awaited_ == 0 && news.tokens.empty() && !std::ranges::all_of(forks_, whole))
    return;
  for (Fork& fork : forks_) {
    if (fork.told || !whole(fork))
      continue;
    fork.told = true;
    DraftedFork& drafted = news.forks.emplace_back();
    drafted.attempt = fork.chain->attempt();
    for (; fork.sent < std::min(fork.chain->drawn(), fork.end); ++fork.sent) {
      drafted.tokens.push_back(fork.chain->token(fork.sent));
      if (spec_->needs_q())
        drafted.q.push_back(row_of(fork.chain->q(fork.sent)));
    }
  }
}

/// Returns a row of q without its zeros.
std::vector<TokenProbability> ServedSequence::row_of(const float* q) const {
  std::vector<TokenProbability> row;
  for (TokenId token = 0; token < common_->vocabulary; ++token)
    if (q[token] > 0)
      row.push_back({token, q[token]});
  return row;
}

} // namespace paceline::nodes
