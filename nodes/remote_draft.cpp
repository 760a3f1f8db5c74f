#include "nodes/remote_draft.hpp"

#include "nodes/draft_forking.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "scheduling/contracts.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;
using speculation::Frontier;
using speculation::Frontiers;

namespace {

/// Returns how the draft is to warp: the node really draws from q, so q may be cut before it draws.
speculation::SequenceSpec spec_for_node(const speculation::SequenceSpec& spec, int top_k) {
  speculation::SequenceSpec cut = spec;
  if (spec.needs_q() && top_k > 0)
    cut.warping.top_k = spec.warping.top_k > 0 ? std::min(spec.warping.top_k, top_k) : top_k;
  return cut;
}

class RemoteDraftProxy final : public actors::DraftProxy {
public:
  explicit RemoteDraftProxy(RemoteDraftParts parts) : parts_(std::move(parts)) {}
  DraftActor spawn(caf::local_actor& host, std::shared_ptr<gpu::Device> target) const override {
    return messages::spawn<RemoteDraft>(host, parts_, std::move(target));
  }

private:
  RemoteDraftParts parts_;
};

/// Notes that the node has read so many committed tokens: it does not stand still
/// (scheduling::DraftHealth), even if each new chain is looked at before it has a token.
void note_reading(const speculation::Frontier& at, int tokens) {
  std::atomic<int>& read = at.residency->read;
  if (read.load(std::memory_order_relaxed) < tokens)
    read.store(tokens, std::memory_order_relaxed);
}

} // namespace

std::shared_ptr<const actors::DraftProxy> make_proxy(RemoteDraftParts parts) {
  return std::make_shared<RemoteDraftProxy>(std::move(parts));
}

/// The inbox that the draft lends. It outlives the actor: posts then go nowhere.
class RemoteDraft::Inbox final : public speculation::DraftInbox {
public:
  explicit Inbox(caf::actor_addr draft) : draft_(std::move(draft)) {}
  void post(const Frontiers& frontiers) override {
    if (const auto draft = caf::actor_cast<caf::actor>(draft_))
      messages::tell(draft, frontiers);
  }

private:
  caf::actor_addr draft_;
};

RemoteDraft::RemoteDraft(Handle::pointer self, RemoteDraftParts parts,
                         std::shared_ptr<gpu::Device> target)
    : self_(self), parts_(std::move(parts)),
      rows_(std::make_shared<execution::SparseRows>(
          std::make_shared<execution::RowPool>(execution::RowPool::Config{
              parts_.host, std::move(target), parts_.hello.vocabulary, parts_.q_rows}))),
      inbox_(std::make_shared<Inbox>(caf::actor_cast<caf::actor_addr>(self))),
      node_(self, parts_.heartbeat, parts_.telemetry->trace,
            [this](const std::string& why) { gone(why); }),
      row_bytes_(double(sizeof(TokenProbability)) *
                 (parts_.top_k > 0 ? std::min(parts_.top_k, parts_.hello.vocabulary)
                                   : parts_.hello.vocabulary)) {
  node_.dial(parts_);
}

RemoteDraft::~RemoteDraft() {
  for (auto& [id, s] : sequences_)
    end(s);
}

RemoteDraftActor::behavior_type RemoteDraft::make_behavior() {
  return {
      [this](const Frontiers& news) {
        const base::Handling span(*parts_.telemetry, name, "frontiers");
        take(news);
      },
      [this](const scheduling::Forget&) {
        const base::Handling span(*parts_.telemetry, name, "forget");
        forget();
        send();
      },
      [this](const Borrow&) { return Lent{inbox_}; },
      [](const Ping&) { return Pong{}; },
      [this](const Connected& how) {
        if (node_.begin(how, parts_, parts_.hello))
          tell_after(self_, node_.pause(), self_, Wake{});
      },
      [this](const DraftOpened&) {
        node_.opened();
        if (parts_.absence->end())
          parts_.telemetry->log.write(LogLevel::info, parts_.name + " drafts again");
      },
      [this](const Refused& refused) { node_.refused(refused); },
      [this](const Drafted& news) {
        const base::Handling span(*parts_.telemetry, name, "drafted");
        node_.believe([&] { take(news); });
      },
      [this](const Pong&) { node_.hear(); },
      [this](const ClockRead& answer) { node_.take(answer); },
      [this](const NodeSpans& news) { node_.take(news); },
      [this](const Wake&) { look_after(); },
  };
}

/// Ends the actor; the supervisor tries again.
void RemoteDraft::gone(const std::string& why) {
  if (parts_.absence->begin(now()))
    parts_.telemetry->log.write(
        LogLevel::warning, fmt::format("no drafts from {}: {}: decoding goes on without them, and "
                                       "it is asked again and again",
                                       parts_.name, one_line(why)));
  node_.end_actor();
}

void RemoteDraft::look_after() {
  if (!node_.answers())
    return;
  node_.ask();
  tell_after(self_, node_.pause(), self_, Wake{});
}

// ---- frontiers ----

void RemoteDraft::take(const Frontiers& news) {
  scheduling::check_contract(news.sequences);
  for (const Frontier& frontier : news.sequences) {
    if (!node_.is_open())
      frontier.chain->end_here();
    else if (Sequence* const s = sequences_.find_for(frontier))
      go_on(*s, frontier);
  }
  forget();
  send();
}

void RemoteDraft::go_on(Sequence& s, const Frontier& news) {
  if (s.at.residency != news.residency)
    s.sent = s.read = 0;
  turn_over(s, news.chain);
  s.at = news;
  s.at.chain->release_q(s.at.length());
  ask(s);
}

/// Turns the sequence over to another chain, and drops forks of a chain that nothing goes on from.
void RemoteDraft::turn_over(Sequence& s, const speculation::ChainRef& chain) {
  const bool goes_on = s.at.chain == chain;
  if (!goes_on) {
    if (s.at.chain)
      end(s, chain.get());
    s.chain = ++chains_;
    s.cut = false;
  }
  std::erase_if(s.forks, [&](const Fork& fork) {
    return fork.chain != chain && (!goes_on || fork.chain->closed());
  });
  const auto itself = [&](const Fork& fork) { return fork.chain == chain; };
  if (is_fork(*chain) && (s.sent == 0 || std::ranges::none_of(s.forks, itself)))
    chain->end_here(); // The node does not know this chain.
}

/// Ends the sequence's chain and its forks, to which nothing more comes.
void RemoteDraft::end(const Sequence& s, const Chain* kept) {
  if (s.at.chain.get() != kept)
    s.at.chain->end_here();
  for (const Fork& fork : s.forks)
    if (fork.chain.get() != kept)
      fork.chain->end_here();
}

/// Asks the node for the next draws. If it has many tokens to read, only reading is asked for
/// first, since a bound position is waited for.
void RemoteDraft::ask(Sequence& s) {
  Chain& chain = *s.at.chain;
  const int length = s.at.length();
  const bool draws = chain.next() >= 0;
  const bool forked = is_fork(chain);
  const bool reads = draws && !forked && length - s.read > limits::read_while_drafting_max;
  if (chain.closed() || (!draws && (forked || s.sent == length)))
    return;
  DraftFrom from;
  from.sequence = s.at.spec->id;
  from.epoch = s.at.epoch;
  if (s.sent == 0)
    from.begins = spec_for_node(*s.at.spec, parts_.top_k);
  from.known = s.sent;
  for (int i = s.sent; i < length; ++i)
    from.tokens.push_back(s.at.token_at(i));
  from.chain = s.chain;
  from.start = chain.start();
  from.window_end = chain.window_end();
  // Positions that are bound stay bound, and somebody may be turning the chain over just now.
  from.limit = std::max({chain.limit(), chain.bound(), from.window_end});
  from.reads = reads;
  from.fork = forked ? chain.attempt() : 0;
  s.sent = length;
  s.since = now();
  if (draws && !reads) {
    s.read = length;
    chain.bind(from.limit);
    ask_forks(s, from);
  }
  work_tokens_ += from.tokens.size();
  work_.sequences.push_back(std::move(from));
  if (work_tokens_ > limits::frame_numbers_max)
    send();
}

void RemoteDraft::forget() {
  sequences_.forget([this](const Sequence& s) {
    end(s);
    if (s.sent > 0)
      work_.over.push_back(s.at.spec->id);
  });
}

void RemoteDraft::send() {
  if (node_ && !(work_.over.empty() && work_.sequences.empty()))
    node_.say(std::exchange(work_, {}));
  work_tokens_ = 0;
}

// ---- windows ----

void RemoteDraft::take(const Drafted& news) {
  check_peer(news.step >= base::Duration::zero() && news.step <= limits::pass_time_max,
             "no pass takes that long");
  node_.hear();
  for (const DraftedTokens& drafted : news.chains)
    take(drafted, news.step);
  send();
}

void RemoteDraft::take(const DraftedTokens& drafted, base::Duration step) {
  Sequence* const found = sequences_.find(drafted.sequence);
  if (!found)
    return; // Nobody goes on with this chain.
  Sequence& s = *found;
  const bool goes_on = s.chain == drafted.chain;
  if (goes_on && drafted.read) {
    s.read = s.at.length();
    note_reading(s.at, s.read);
    return ask(s);
  }
  if (goes_on && !s.cut) {
    for (const OpenedFork& opened : drafted.opened)
      open(s, opened);
    take_tokens(s, drafted, step);
  }
  for (const DraftedFork& fork : drafted.forks)
    take_fork(s, drafted.chain, fork);
}

void RemoteDraft::take_tokens(Sequence& s, const DraftedTokens& drafted, base::Duration step) {
  Chain& chain = *s.at.chain;
  const int count = int(drafted.tokens.size());
  check_peer(drafted.first == chain.drawn() && count <= chain.bound() - drafted.first,
             "the node drafts what nobody has asked for");
  check_peer(drafted.guesses.empty() || int(drafted.guesses.size()) == count,
             "the node sends too few guesses");
  check_peer(!s.at.spec->needs_q() || int(drafted.q.size()) == count,
             "the node sends too few rows");
  const base::TimePoint at = now();
  if (count > 0) {
    note_reading(s.at, chain.start());
    pace_.observe((at - s.since) / count);
    chain.spent(std::min<base::Duration>(at - s.since, step * count), pace_);
    parts_.telemetry->overlap.drafted(std::max(s.since, at - step * count), at);
    s.since = at;
  }
  for (std::size_t i = 0; i < drafted.tokens.size() && !s.cut; ++i) {
    const auto guesses = drafted.guesses.empty()
                             ? sampling::Guesses()
                             : guesses_of(drafted.guesses[i], parts_.hello.vocabulary);
    s.cut = !put(s, chain, drafted.tokens[i], drafted.q.empty() ? nullptr : &drafted.q[i], guesses);
  }
  if (drafted.ends || s.cut)
    chain.end_here();
}

/// Puts the next token into a chain. False: there is no memory for its row.
bool RemoteDraft::put(const Sequence& s, Chain& chain, TokenId token,
                      const std::vector<TokenProbability>* q, const sampling::Guesses& guesses,
                      std::size_t spare) {
  check_peer(token >= 0 && token < parts_.hello.vocabulary, "the node drafts a token that is none");
  speculation::QRow row;
  if (s.at.spec->needs_q()) {
    row = row_of(*q, spare);
    if (!row)
      return false;
  }
  chain.put(chain.drawn(), token, std::move(row), guesses);
  base::add(parts_.telemetry->drafted, 1);
  return true;
}

/// Makes a row with the very numbers of the node, so that its draw can be repeated.
speculation::QRow RemoteDraft::row_of(const std::vector<TokenProbability>& said,
                                      std::size_t spare) {
  std::vector<TokenWeight> weights;
  for (const TokenProbability& of : said) {
    check_peer(of.token >= 0 && of.token < parts_.hello.vocabulary && of.probability >= 0 &&
                   std::isfinite(of.probability),
               "the node sends a row that is no distribution");
    weights.push_back({of.token, of.probability});
  }
  constexpr double memory = 16; // Rows that the mean remembers.
  row_bytes_ += (double(said.size() * sizeof(TokenProbability)) - row_bytes_) / memory;
  return rows_->take_normalised(weights, spare);
}

} // namespace paceline::nodes
