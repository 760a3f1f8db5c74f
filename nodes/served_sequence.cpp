#include "nodes/served_sequence.hpp"

#include "nodes/draft_forking.hpp"
#include "nodes/peer.hpp"
#include "sampling/fields.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <limits>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;
using speculation::Frontier;

namespace {

constexpr int all_positions = std::numeric_limits<int>::max();

/// Checks the bounds of a request, within which rows of q stay finite.
void check(const sampling::Warping& w) {
  const auto allowed = [&](const sampling::RequestNumber& field) {
    return !field.warps() || field.range.allows(*field.warping.get(w));
  };
  check_peer(std::ranges::all_of(sampling::request_numbers, allowed) && w.min_tokens >= 0,
             "nobody samples so");
}

/// Checks a specification. context: the engine's context by its own word. On the wire an enumerator
/// may be any number.
void check(const speculation::SequenceSpec& spec, int context) {
  check_peer(spec.prompt_tokens > 0 && spec.max_tokens >= 0, "a sequence has no tokens");
  check_peer(std::int64_t(spec.prompt_tokens) + spec.max_tokens <= context,
             "a sequence is too long");
  using sampling::Rule;
  check_peer(spec.rule == Rule::rejection || spec.rule == Rule::coupled || spec.rule == Rule::match,
             "there is no such rule");
  check(spec.warping);
}

speculation::SequenceSpecRef spec_of(const DraftFrom& begins, int context) {
  check_peer(begins.known == 0, "a sequence begins with tokens that nobody has");
  check(*begins.begins, context);
  speculation::SequenceSpec spec = *begins.begins;
  spec.id = begins.sequence;
  return std::make_shared<const speculation::SequenceSpec>(std::move(spec));
}

} // namespace

ServedSequence::ServedSequence(std::shared_ptr<const Common> common, const DraftFrom& begins)
    : common_(std::move(common)), spec_(spec_of(begins, common_->max_model_len)),
      log_(std::make_shared<speculation::TokenLog>(std::span<const TokenId>(),
                                                   std::size_t(spec_->prompt_tokens) +
                                                       std::size_t(spec_->max_tokens))),
      residency_(std::make_shared<speculation::CacheResidency>()) {
  residency_->epoch = begins.epoch;
}

ServedSequence::~ServedSequence() {
  if (chain_)
    chain_->close();
  residency_->over.store(true, std::memory_order_release);
}

Frontier ServedSequence::take(const DraftFrom& from) {
  check_peer(from.known == log_->size(), "tokens do not go on from those before");
  append(from.tokens);
  go_on(from);
  const int length = log_->size();
  extend_pages(std::max(length, chain_->limit()) + 1);
  return {.spec = spec_,
          .epoch = from.epoch,
          .log = log_,
          .log_length = length,
          .tokens = {},
          .chain = chain_,
          .pages = pages_,
          .residency = residency_,
          .forking = forking_,
          .features = {}};
}

void ServedSequence::append(const std::vector<TokenId>& tokens) {
  const int room = spec_->prompt_tokens + spec_->max_tokens - log_->size();
  check_peer(std::int64_t(tokens.size()) <= room, "a sequence is too long");
  check_peer(std::ranges::all_of(
                 tokens, [&](TokenId token) { return token >= 0 && token < common_->vocabulary; }),
             "a token is none");
  check_peer(std::int64_t(tokens.size()) + log_->size() >= spec_->prompt_tokens,
             "a sequence goes on before its prompt is there");
  log_->append(tokens);
}

/// Goes on with the chain, or with one of its forks, or begins another chain where the engine says.
void ServedSequence::go_on(const DraftFrom& from) {
  const int length = log_->size();
  check_peer(from.start <= length && from.start <= from.window_end &&
                 from.window_end <= from.limit &&
                 from.limit <= length + speculation::limits::chain_positions,
             "a chain is not where the sequence ends");
  const bool same = chain_ && number_ == from.chain && !reads_;
  if (same) {
    check_peer(length <= sent_, "a chain came true that nobody has seen");
    chain_->extend(from.window_end, from.limit);
    chain_->drop_forks(length);
    std::erase_if(forks_, [length](const Fork& fork) { return fork.position < length; });
  } else if (from.fork != 0) {
    follow_fork(from);
  } else {
    begin_chain(from);
  }
  forking_ = from.forking ? forking_of(*from.forking) : speculation::Forking();
  forking_.learns = guesses_ = from.guesses;
  const bool whole = sent_ >= chain_->window_end();
  awaited_ = 0;
  if (sent_ < chain_->limit())
    await(whole ? chain_->limit() : chain_->window_end());
}

void ServedSequence::begin_chain(const DraftFrom& from) {
  const int length = log_->size();
  check_peer(from.start == length, "a chain goes on that never began");
  if (chain_) {
    chain_->close();
    chain_->drop_forks(all_positions);
  }
  forks_.clear();
  chain_ = std::make_shared<Chain>(from.sequence);
  chain_->on_forks(common_->tell);
  number_ = from.chain;
  reads_ = from.reads;
  if (reads_)
    chain_->begin(length, length + 1, length + 1);
  else
    chain_->begin(length, from.window_end, from.limit);
  sent_ = length;
}

/// Goes on with a fork: the verdict that ended the chain was the one that the fork was written for.
void ServedSequence::follow_fork(const DraftFrom& from) {
  const int length = log_->size();
  const auto found = std::ranges::find_if(
      forks_, [&](const Fork& fork) { return fork.chain->attempt() == from.fork; });
  check_peer(found != forks_.end() && from.start == found->chain->start() && !from.reads &&
                 length <= std::max(found->sent, from.start),
             "a fork goes on that nobody has seen");
  const Fork fork = *found;
  chain_->close();
  chain_->drop_forks(all_positions, fork.chain.get());
  forks_.clear();
  chain_ = fork.chain;
  chain_->on_forks(common_->tell);
  number_ = from.chain;
  sent_ = fork.sent;
  chain_->extend(from.window_end, from.limit);
}

/// Adds as many pages as are free. The draft ends where it has no room.
void ServedSequence::extend_pages(int end) {
  const int page_tokens = common_->page_tokens;
  const int has = pages_ ? pages_->capacity() : 0;
  std::vector<gpu::PageRef> more;
  for (int room = has; room < std::min(end, common_->context + 1); room += page_tokens)
    if (auto page = common_->pool->take())
      more.push_back(std::move(page));
    else
      break;
  if (!pages_ || !more.empty())
    pages_ = gpu::PageTable::extend(pages_.get(), page_tokens, std::move(more));
}

} // namespace paceline::nodes
