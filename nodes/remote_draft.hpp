// Stands for a draft that is on a node, in place of a draft's lane.
#pragma once

#include "base/telemetry.hpp"
#include "execution/sparse_rows.hpp"
#include "gpu/device.hpp"
#include "messages/interfaces.hpp"
#include "nodes/node_connection.hpp"
#include "speculation/drafted_sequences.hpp"

#include <chrono>
#include <memory>
#include <optional>

namespace paceline::nodes {

struct RemoteDraftParts : NodePlace {
  messages::OpenDraft hello;
  std::chrono::milliseconds heartbeat{}; ///< Longest silence before the node counts as gone.
  int top_k = 0;                         ///< EngineOptions::draft_top_k
  std::shared_ptr<gpu::Device> host;     ///< Writes rows of q.
  std::size_t q_rows = 0;                ///< Most q rows lent at a time.
  std::shared_ptr<base::Telemetry> telemetry;
  std::shared_ptr<NodeAbsence> absence = std::make_shared<NodeAbsence>();
};

/// Binds positions and then asks the node for them, so that nothing is drawn that was not bound
/// before. A sequence whose text the node has still to read is not bound until it has read it. The
/// tokens that come back go into the chains. All positions that a frontier lets the draft go are
/// asked for at once: the lookahead needs no further message, and hides the way there and back.
///
/// The node chooses forks by the frontier's odds, and tells each fork's outcome before it draws the
/// fork's first token: from then on the whole fork is bound here, and a verdict with that outcome
/// goes on with it. Its tokens may come before or after.
///
/// It ends with its connection, or when nobody answers: a lost node is a dead draft, and the
/// supervisor starts the next one. Without a connection all chains end where they are, so that
/// nobody waits.
class RemoteDraft {
public:
  using Handle = messages::RemoteDraftActor;
  static constexpr const char* name = "remote draft";

  /// target: reads the rows of q.
  RemoteDraft(Handle::pointer self, RemoteDraftParts parts, std::shared_ptr<gpu::Device> target);
  ~RemoteDraft();
  Handle::behavior_type make_behavior();

private:
  class Inbox;
  struct Fork {
    std::uint32_t of = 0; ///< Number of the chain that it is a fork of.
    speculation::ChainRef chain;
    int end = 0; ///< One past the last position that is bound.
  };
  /// A sequence, and how much of it the node has been told: what has been asked for and is not here
  /// yet stands nowhere else at this end.
  struct Sequence {
    speculation::Frontier at;
    std::vector<Fork> forks; ///< Forks of the chain, and the chain itself if it is one.
    int sent = 0;            ///< Number of committed tokens that the node has; 0: it has to begin.
    int read = 0;            ///< Number of these that it has read, or reads with the next draws.
    std::uint32_t chain = 0; ///< The chain's number.
    bool cut = false;        ///< The chain ended here for lack of memory: its tokens are dropped.
    base::TimePoint since;   ///< Last time that something was asked for, or came.
    int windows = 0;         ///< Number of windows that were asked for with forks.
  };

  void take(const speculation::Frontiers& news);
  void go_on(Sequence& s, const speculation::Frontier& news);
  void turn_over(Sequence& s, const speculation::ChainRef& chain);
  static void end(const Sequence& s, const speculation::Chain* kept = nullptr);
  void forget();
  void ask(Sequence& s);
  void ask_forks(Sequence& s, messages::DraftFrom& from);
  void send();
  void take(const messages::Drafted& news);
  void take(const messages::DraftedTokens& drafted, base::Duration step);
  void take_tokens(Sequence& s, const messages::DraftedTokens& drafted, base::Duration step);
  void open(Sequence& s, const messages::OpenedFork& opened) const;
  void take_fork(Sequence& s, std::uint32_t of, const messages::DraftedFork& drafted);
  bool put(const Sequence& s, speculation::Chain& chain, TokenId token,
           const std::vector<messages::TokenProbability>* q, const sampling::Guesses& guesses,
           std::size_t spare = 0);
  speculation::QRow row_of(const std::vector<messages::TokenProbability>& said, std::size_t spare);
  void look_after();
  void gone(const std::string& why);
  base::TimePoint now() const { return self_->clock().now(); }

  Handle::pointer self_;
  RemoteDraftParts parts_;
  std::shared_ptr<execution::SparseRows> rows_;
  std::shared_ptr<speculation::DraftInbox> inbox_;
  NodeConnection node_;
  speculation::DraftedSequences<Sequence> sequences_;
  std::uint32_t chains_ = 0;
  messages::DraftWork work_; ///< Work to be sent.
  std::size_t work_tokens_ = 0;
  speculation::DraftPace pace_;
  double row_bytes_; ///< Recent mean size of a row of q that crosses.
};

/// Makes the proxy from which a supervisor starts a RemoteDraft.
std::shared_ptr<const actors::DraftProxy> make_proxy(RemoteDraftParts parts);

/// Makes parts that connect over sockets.
RemoteDraftParts remote_draft_parts(const NodeAddress& address, const NodeTls& tls);

} // namespace paceline::nodes
