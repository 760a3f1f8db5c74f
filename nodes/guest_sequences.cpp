// The sequences of a guest: what an engine says of them.
#include "nodes/draft_forking.hpp"
#include "nodes/guest.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <limits>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;
using speculation::Frontier;

namespace {

constexpr int all_positions = std::numeric_limits<int>::max();

/// What the bounds of a request leave, and rows of q stay finite by.
void check(const sampling::Warping& w) {
  const auto within = [](float value, float least, float most) {
    return value >= least && value <= most; // so that NaN is not
  };
  check_peer(within(w.temperature, 0, 100) && w.top_k >= 0 && within(w.top_p, 0, 1) &&
                 within(w.min_p, 0, 1) && within(w.repetition_penalty, 0, 100) &&
                 within(w.presence_penalty, -2, 2) && within(w.frequency_penalty, -2, 2) &&
                 w.min_tokens >= 0,
             "nobody samples so");
}

/// context: that the engine said it has. An enumerator is any number on the wire.
void check(const speculation::SequenceSpec& spec, int context) {
  check_peer(spec.prompt_tokens > 0 && spec.max_tokens >= 0, "a sequence has no tokens");
  check_peer(std::int64_t(spec.prompt_tokens) + spec.max_tokens <= context,
             "a sequence is too long");
  using sampling::Rule;
  check_peer(spec.rule == Rule::rejection || spec.rule == Rule::coupled || spec.rule == Rule::match,
             "there is no such rule");
  check(spec.warping);
}

} // namespace

Guest::Sequence::Sequence(speculation::SequenceSpec said, speculation::Epoch epoch)
    : log(std::make_shared<speculation::TokenLog>(std::span<const TokenId>(),
                                                  std::size_t(said.prompt_tokens) +
                                                      std::size_t(said.max_tokens))),
      residency(std::make_shared<speculation::CacheResidency>()) {
  residency->epoch = epoch;
  spec = std::make_shared<const speculation::SequenceSpec>(std::move(said));
}

Guest::Sequence::~Sequence() {
  if (chain)
    chain->close();
  residency->over.store(true, std::memory_order_release);
}

void Guest::take(const DraftWork& work) {
  check_peer(inbox_ != nullptr, "it wants drafts of nothing");
  check_peer(work.sequences.size() <= sequences_max(), "it names more sequences than it said");
  heard_ = self_->clock().now();
  for (const auto id : work.over)
    sequences_.erase(id);
  speculation::Frontiers frontiers;
  for (const DraftFrom& from : work.sequences)
    frontiers.sequences.push_back(take(from));
  if (!frontiers.sequences.empty())
    inbox_->post(frontiers);
  else if (!work.over.empty())
    tell(self_, draft_, scheduling::Forget{});
}

Frontier Guest::take(const DraftFrom& from) {
  Sequence& s = from.begins ? begin(from) : begun(from);
  append(s, from.tokens);
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

std::size_t Guest::sequences_max() const {
  return std::size_t(limits::guest_sequences_per_seat) * std::size_t(wanted_.max_num_seqs);
}

/// What was known of a sequence of this name is of no more use.
Guest::Sequence& Guest::begin(const DraftFrom& from) {
  check_peer(from.known == 0, "a sequence begins with tokens that nobody has");
  check(*from.begins, wanted_.max_model_len);
  sequences_.erase(from.sequence);
  check_peer(sequences_.size() < sequences_max(), "it has more sequences than it said");
  speculation::SequenceSpec spec = *from.begins;
  spec.id = from.sequence;
  return sequences_.try_emplace(from.sequence, std::move(spec), from.epoch).first->second;
}

Guest::Sequence& Guest::begun(const DraftFrom& from) {
  const auto found = sequences_.find(from.sequence);
  check_peer(found != sequences_.end(), "a sequence goes on that never began");
  check_peer(from.known == found->second.log->size(), "tokens do not go on from those before");
  return found->second;
}

void Guest::append(const Sequence& s, const std::vector<TokenId>& tokens) const {
  const int room = s.spec->prompt_tokens + s.spec->max_tokens - s.log->size();
  check_peer(std::int64_t(tokens.size()) <= room, "a sequence is too long");
  check_peer(std::ranges::all_of(
                 tokens, [&](TokenId token) { return token >= 0 && token < wanted_.vocabulary; }),
             "a token is none");
  check_peer(std::int64_t(tokens.size()) + s.log->size() >= s.spec->prompt_tokens,
             "a sequence goes on before its prompt is there");
  s.log->append(tokens);
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

} // namespace paceline::nodes
