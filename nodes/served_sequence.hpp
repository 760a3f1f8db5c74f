// A sequence of an engine for which a node drafts.
#pragma once

#include "gpu/kv_pool.hpp"
#include "messages/node.hpp"
#include "speculation/frontier.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace paceline::nodes {

/// A copy of the sequence's log and of its chain, as far as the engine has told of them, with pages
/// of the node's own; and what of the chain the engine has been told. When it ends its pages go
/// back, however that comes. Whatever an engine says that cannot be throws std::invalid_argument.
/// Threads: its owner's.
class ServedSequence {
public:
  /// What all sequences of an engine have in common.
  struct Common {
    int vocabulary = 0;    ///< The engine's ids.
    int max_model_len = 0; ///< Longest sequence that the engine has.
    int context = 0;       ///< The same, or the draft's context if that is less.
    int page_tokens = 0;
    std::shared_ptr<gpu::KvPool> pool;
    /// Called where there may be news of a chain, on any thread.
    std::function<void()> tell;
  };

  /// begins: says so (DraftFrom::begins).
  ServedSequence(std::shared_ptr<const Common> common, const messages::DraftFrom& begins);
  ~ServedSequence();
  ServedSequence(const ServedSequence&) = delete;
  ServedSequence& operator=(const ServedSequence&) = delete;

  /// What the engine says of it; where the draft is to go on.
  speculation::Frontier take(const messages::DraftFrom& from);
  /// Adds what the engine has not been told: a window that is whole, or the lookahead behind it;
  /// forks that have been opened, and what they have got. False: there is nothing to be said yet.
  bool add_news(messages::DraftedTokens& news);
  /// How long a pass takes that drafts for it; 0: not known yet.
  base::Duration step() const { return chain_->pace().step; }

private:
  /// A fork that the engine knows of.
  struct Fork {
    speculation::ChainRef chain;
    int position = 0;  ///< Position of its outcome.
    int end = 0;       ///< One past its last position, if it does not end before.
    int sent = 0;      ///< One past the last position that has been sent.
    bool told = false; ///< What it has got has been sent.
  };

  void append(const std::vector<TokenId>& tokens);
  void go_on(const messages::DraftFrom& from);
  void begin_chain(const messages::DraftFrom& from);
  void follow_fork(const messages::DraftFrom& from);
  void extend_pages(int end);
  void await(int position);
  void add_tokens(messages::DraftedTokens& news);
  void add_opened(messages::DraftedTokens& news);
  void add_forks(messages::DraftedTokens& news);
  std::vector<messages::TokenProbability> row_of(const float* q) const;

  std::shared_ptr<const Common> common_;
  speculation::SequenceSpecRef spec_;
  speculation::TokenLogRef log_;
  speculation::CacheResidencyRef residency_;
  gpu::PageTableRef pages_;
  speculation::ChainRef chain_; ///< Null until the first frontier has been taken.
  std::uint32_t number_ = 0;    ///< The chain's, as the engine has it.
  bool reads_ = false;          ///< The chain is only there to show that all has been read.
  int sent_ = 0;                ///< One past the last position that has been sent.
  int awaited_ = 0;             ///< What is there up to here is sent when all of it is; 0: nothing.
  std::vector<Fork> forks_;     ///< Forks of the chain.
  speculation::Forking forking_;
  bool guesses_ = false; ///< Tokens are sent with what was guessed beside them.
};

} // namespace paceline::nodes
