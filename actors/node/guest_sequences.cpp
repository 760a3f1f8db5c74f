// The sequences of a guest: what an engine says of them, and what their chains have got.
#include "actors/limits.hpp"
#include "actors/node/draft_forking.hpp"
#include "actors/node/guest.hpp"
#include "actors/node/peer.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <limits>

namespace paceline::actors {

using namespace messages;
using speculation::Chain;
using speculation::Frontier;

namespace {

constexpr int all_positions = std::numeric_limits<int>::max();

/// Of q.
std::size_t numbers_in(const DraftedTokens& news) {
  std::size_t numbers = 0;
  for (const auto& row : news.q)
    numbers += row.size();
  for (const DraftedFork& fork : news.forks)
    for (const auto& row : fork.q)
      numbers += row.size();
  return numbers;
}

/// context: that the engine said it has. An enumerator is any number on the wire.
void check(const speculation::SequenceSpec& spec, int context) {
  check_peer(spec.prompt_tokens > 0 && spec.max_tokens >= 0, "a sequence has no tokens");
  check_peer(std::int64_t(spec.prompt_tokens) + spec.max_tokens <= context,
             "a sequence is too long");
  using sampling::Rule;
  check_peer(spec.rule == Rule::rejection || spec.rule == Rule::coupled || spec.rule == Rule::match,
             "there is no such rule");
}

} // namespace

void Guest::take(const DraftWork& work) {
  check_peer(inbox_ != nullptr, "it wants drafts of nothing");
  heard_ = self_->clock().now();
  for (const auto id : work.over)
    if (const auto found = sequences_.find(id); found != sequences_.end()) {
      found->second.chain->close();
      found->second.residency->over.store(true, std::memory_order_release);
      sequences_.erase(found);
    }
  speculation::Frontiers frontiers;
  for (const DraftFrom& from : work.sequences)
    frontiers.sequences.push_back(take(from));
  if (!frontiers.sequences.empty())
    inbox_->post(frontiers);
  else if (!work.over.empty())
    tell(self_, draft_, scheduling::Forget{});
}

Frontier Guest::take(const DraftFrom& from) {
  const int sequences = limits::guest_sequences_per_seat * wanted_.max_num_seqs;
  Sequence& s = sequences_[from.sequence];
  check_peer(int(sequences_.size()) <= sequences, "it has more sequences than it said");
  if (from.begins)
    begin(s, from);
  check_peer(s.log && from.known == s.log->size(), "tokens do not go on from those before");
  const int room = s.spec->prompt_tokens + s.spec->max_tokens - from.known;
  check_peer(std::int64_t(from.tokens.size()) <= room, "a sequence is too long");
  check_peer(std::ranges::all_of(from.tokens, [](TokenId token) { return token >= 0; }),
             "a token is none");
  s.log->append(from.tokens);
  go_on(s, from);
  const int length = s.log->size();
  extend_pages(s, std::max(length, s.chain->limit()) + 1);
  return {.spec = s.spec,
          .epoch = from.epoch,
          .log = s.log,
          .log_length = length,
          .tokens = {},
          .chain = s.chain,
          .pages = s.pages,
          .residency = s.residency,
          .forking = s.forking,
          .features = {}};
}

/// What was known of a sequence of this name is of no more use; its pages go back.
void Guest::begin(Sequence& s, const DraftFrom& from) {
  check_peer(from.known == 0, "a sequence begins with tokens that nobody has");
  check(*from.begins, wanted_.max_model_len);
  if (s.residency) {
    s.chain->close();
    s.residency->over.store(true, std::memory_order_release);
  }
  s = {};
  auto spec = std::make_shared<speculation::SequenceSpec>(*from.begins);
  spec->id = from.sequence;
  s.spec = std::move(spec);
  s.log = std::make_shared<speculation::TokenLog>(std::span<const TokenId>(),
                                                  std::size_t(s.spec->prompt_tokens) +
                                                      std::size_t(s.spec->max_tokens));
  s.residency = std::make_shared<speculation::CacheResidency>();
  s.residency->epoch = from.epoch;
}

/// The chain goes on, or one of its forks, or another one begins where the engine says.
void Guest::go_on(Sequence& s, const DraftFrom& from) {
  const int length = s.log->size();
  check_peer(from.start <= length && from.start <= from.window_end &&
                 from.window_end <= from.limit &&
                 from.limit <= length + speculation::limits::chain_positions,
             "a chain is not where the sequence ends");
  const bool same = s.chain && s.number == from.chain && !s.reads;
  if (same) {
    check_peer(length <= s.sent, "a chain came true that nobody has seen");
    s.chain->extend(from.window_end, from.limit);
    s.chain->drop_forks(length);
    std::erase_if(s.forks, [length](const Fork& fork) { return fork.position < length; });
  } else if (from.fork != 0) {
    follow_fork(s, from);
  } else {
    begin_chain(s, from);
  }
  s.forking = from.forking ? forking_of(*from.forking) : speculation::Forking();
  s.forking.learns = s.guesses = from.guesses;
  const bool whole = s.sent >= s.chain->window_end();
  s.awaited = 0;
  if (s.sent < s.chain->limit())
    await(s, whole ? s.chain->limit() : s.chain->window_end());
}

void Guest::begin_chain(Sequence& s, const DraftFrom& from) {
  const int length = s.log->size();
  check_peer(from.start == length, "a chain goes on that never began");
  if (s.chain) {
    s.chain->close();
    s.chain->drop_forks(all_positions);
  }
  s.forks.clear();
  s.chain = std::make_shared<Chain>(from.sequence);
  s.chain->on_forks(telling());
  s.number = from.chain;
  s.reads = from.reads;
  if (s.reads)
    s.chain->begin(length, length + 1, length + 1);
  else
    s.chain->begin(length, from.window_end, from.limit);
  s.sent = length;
}

/// What the verdict was that ended the chain, the fork was written for.
void Guest::follow_fork(Sequence& s, const DraftFrom& from) {
  const int length = s.log->size();
  const auto found = std::ranges::find_if(
      s.forks, [&](const Fork& fork) { return fork.chain->attempt() == from.fork; });
  check_peer(found != s.forks.end() && from.start == found->chain->start() && !from.reads &&
                 length <= std::max(found->sent, from.start),
             "a fork goes on that nobody has seen");
  const Fork fork = *found;
  s.chain->close();
  s.chain->drop_forks(all_positions, fork.chain.get());
  s.forks.clear();
  s.chain = fork.chain;
  s.chain->on_forks(telling());
  s.number = from.chain;
  s.sent = fork.sent;
  s.chain->extend(from.window_end, from.limit);
}

/// As many as there are: the draft ends where it has no room.
void Guest::extend_pages(Sequence& s, int end) const {
  const int has = s.pages ? s.pages->capacity() : 0;
  std::vector<gpu::PageRef> more;
  for (int room = has; room < std::min(end, context_ + 1); room += node_->page_tokens)
    if (auto page = pool_->take())
      more.push_back(std::move(page));
    else
      break;
  if (!s.pages || !more.empty())
    s.pages = gpu::PageTable::extend(s.pages.get(), node_->page_tokens, std::move(more));
}

// ---- windows ----

/// From the draft's lane, or at once: several that come at a time make one message.
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

/// Those that are whole: with the lookahead, or else when all are.
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

} // namespace paceline::actors
