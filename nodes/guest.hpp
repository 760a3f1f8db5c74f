// On a node: drafts for one engine, or has layers of its target.
#pragma once

#include "actors/draft_model.hpp"
#include "messages/interfaces.hpp"
#include "nodes/guest_stage.hpp"
#include "nodes/limits.hpp"
#include "nodes/node_parts.hpp"
#include "nodes/span_log.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::nodes {

/// Stands where a scheduler stands for a draft model that is the very one of an engine: keeps
/// copies of the sequences' logs and of their chains, gives them pages of a pool of its own, and
/// sends what the chains have got: a window when it is whole, then the lookahead behind it. Before
/// that it says what the node has, and has files of models received. Or it has the passes of an
/// engine's target run through layers that are here.
/// Whatever a peer says that cannot be ends the guest, and with it the connection.
class Guest {
public:
  using Handle = messages::GuestActor;
  static constexpr const char* name = "guest";

  /// place: one of few, held as long as it lives.
  Guest(Handle::pointer self, std::shared_ptr<NodeParts> node, std::shared_ptr<const void> place);
  ~Guest();
  Handle::behavior_type make_behavior();

private:
  /// A fork that the engine knows of.
  struct Fork {
    speculation::ChainRef chain;
    int position = 0;  ///< Of its outcome.
    int end = 0;       ///< One past its last position, if it does not end before.
    int sent = 0;      ///< One past the last position that has been sent.
    bool told = false; ///< What it has got has been sent.
  };
  /// One that the engine has begun. When it ends its pages go back, however that comes.
  struct Sequence {
    Sequence(speculation::SequenceSpec said, speculation::Epoch epoch);
    ~Sequence();
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    speculation::SequenceSpecRef spec;
    speculation::TokenLogRef log;
    speculation::CacheResidencyRef residency;
    gpu::PageTableRef pages;
    speculation::ChainRef chain; ///< Null until the first frontier has been taken.
    std::uint32_t number = 0;    ///< The chain's, as the engine has it.
    bool reads = false;          ///< The chain is only there to show that all has been read.
    int sent = 0;                ///< One past the last position that has been sent.
    int awaited = 0;         ///< What is there up to here is sent when all of it is; 0: nothing.
    std::vector<Fork> forks; ///< Of the chain.
    speculation::Forking forking;
    bool guesses = false; ///< Tokens are sent with what was guessed beside them.
  };

  void meet();
  void open();
  NodeParts::Wanted wanted_weights() const;
  void serve(const NodeParts::OfferRef& offer);
  void serve_stage(const NodeParts::OfferRef& offer);
  Result<void> start(const NodeParts::Offer& offer);
  void refuse(const Error& why, bool takes_files);
  void receive(const messages::SendModel& what);
  void take(const messages::DraftWork& work);
  speculation::Frontier take(const messages::DraftFrom& from);
  std::size_t sequences_max() const;
  Sequence& begin(const messages::DraftFrom& from);
  Sequence& begun(const messages::DraftFrom& from);
  void append(const Sequence& s, const std::vector<TokenId>& tokens) const;
  void go_on(Sequence& s, const messages::DraftFrom& from);
  void begin_chain(Sequence& s, const messages::DraftFrom& from);
  void follow_fork(Sequence& s, const messages::DraftFrom& from);
  std::function<void()> telling() const;
  void extend_pages(Sequence& s, int end) const;
  void await(Sequence& s, int position);
  void collect();
  bool add_news(Sequence& s, messages::DraftedTokens& news);
  void add_tokens(Sequence& s, messages::DraftedTokens& news);
  void add_opened(Sequence& s, messages::DraftedTokens& news) const;
  void add_forks(Sequence& s, messages::DraftedTokens& news) const;
  std::vector<messages::TokenProbability> row_of(const float* q) const;
  void look_after();
  void send_spans();

  Handle::pointer self_;
  std::shared_ptr<NodeParts> node_;
  std::shared_ptr<const void> place_;
  messages::LinkActor link_; ///< Null until the engine has said what it wants.
  bool asked_ = false;       ///< What it wants.
  messages::OpenDraft wanted_;
  std::optional<messages::OpenStage> stage_wanted_; ///< In its place.
  NodeParts::OfferRef offer_;                       ///< What it has got.
  std::unique_ptr<GuestStage> stage_;               ///< Null: it has none.
  messages::DraftActor draft_;
  messages::ReceiverActor receiver_; ///< Null: no files come.
  std::shared_ptr<speculation::DraftInbox> inbox_;
  std::shared_ptr<gpu::KvPool> pool_;
  int context_ = 0;
  std::map<speculation::SequenceId, Sequence> sequences_;
  /// A word that windows are there is under way; lanes set it.
  std::shared_ptr<std::atomic<bool>> told_ = std::make_shared<std::atomic<bool>>(false);
  base::TimePoint heard_;
  std::shared_ptr<SpanLog> spans_;
};

} // namespace paceline::nodes
