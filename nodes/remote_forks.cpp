// Forks that a node writes: how many it may write, its announcements, and their tokens.
#include "nodes/draft_forking.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"
#include "nodes/remote_draft.hpp"
#include "speculation/limits.hpp"

#include <algorithm>

namespace paceline::nodes {

using namespace messages;
using speculation::Chain;

/// Asks for forks, and now and then for guesses, which are many bytes and are learned from.
void RemoteDraft::ask_forks(Sequence& s, DraftFrom& from) {
  const speculation::Forking& forking = s.at.forking;
  from.forking = forking_for_node(forking, s.at.spec->needs_q() ? row_bytes_ : 0);
  from.guesses =
      forking.learns || (forking.rows > 0 && s.windows++ % limits::node_guesses_every == 0);
}

/// Binds the whole fork before any of its tokens is here, whatever they are.
void RemoteDraft::open(Sequence& s, const OpenedFork& opened) const {
  Chain& chain = *s.at.chain;
  const int frontier = int(opened.attempt % (1u << speculation::limits::frontier_bits));
  const int number = int(opened.attempt >> speculation::limits::frontier_bits);
  const int position = frontier + opened.behind;
  check_peer(int(s.forks.size()) < speculation::limits::forks_max && number > 0 &&
                 number <= speculation::limits::forks_max,
             "the node drafts more forks than there may be");
  check_peer(frontier >= chain.start() && frontier <= s.at.length() && position < chain.bound(),
             "the node drafts a fork elsewhere");
  check_peer(opened.length > 0 && opened.length <= speculation::limits::chain_positions / 2,
             "the node drafts a fork of no length that there is");
  check_peer(opened.token >= 0 && opened.token < parts_.hello.vocabulary,
             "the node drafts behind a token that is none");
  check_peer(std::ranges::none_of(
                 s.forks, [&](const Fork& f) { return f.chain->attempt() == opened.attempt; }),
             "the node drafts a fork twice");
  const auto fork = std::make_shared<Chain>(s.at.spec->id);
  const int end = position + 1 + opened.length;
  fork->begin_fork(position + 1, end, frontier, number);
  fork->bind(end);
  chain.add_fork(position, opened.token, fork);
  s.forks.push_back({s.chain, fork, end});
}

/// Takes a fork of the current chain, or of the one before if the current one is that fork.
void RemoteDraft::take_fork(Sequence& s, std::uint32_t of, const DraftedFork& drafted) {
  const auto found = std::ranges::find_if(s.forks, [&](const Fork& fork) {
    return fork.of == of && fork.chain->attempt() == drafted.attempt;
  });
  if (found == s.forks.end() || found->chain->bound() < found->end)
    return; // Nobody goes on with it, or it has ended.
  Chain& chain = *found->chain;
  const int count = int(drafted.tokens.size());
  check_peer(chain.drawn() == chain.start() && count <= found->end - chain.start(),
             "the node drafts more of a fork than it said");
  check_peer(!s.at.spec->needs_q() || int(drafted.q.size()) == count,
             "the node sends too few rows");
  chain.spent({}, pace_);
  const auto spare = std::size_t(s.at.chain->limit() - s.at.length()); // A window goes first.
  for (std::size_t i = 0; i < drafted.tokens.size(); ++i)
    if (!put(s, chain, drafted.tokens[i], drafted.q.empty() ? nullptr : &drafted.q[i], {}, spare))
      break;
  base::add(parts_.telemetry->forked, std::uint64_t(chain.drawn() - chain.start()));
  s.cut |= found->chain == s.at.chain && chain.drawn() < chain.start() + count;
  if (chain.drawn() < found->end)
    chain.end_here();
}

} // namespace paceline::nodes
