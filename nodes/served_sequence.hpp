// A sequence of an engine for which a node drafts.
#pragma once

#include "gpu/kv_pool.hpp"
#include "messages/node.hpp"
#include "speculation/frontier.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace paceline::nodes {

/// A copy of a sequence's log and of its chain, as far as the engine has told of them, with pages
/// of the node's own, and how much of the chain the engine has been told. When it ends, in whatever
/// way, its pages go back. Invalid values from an engine throw std::invalid_argument. Threads: its
/// owner's.
class ServedSequence {
public:
  /// Values that all sequences of an engine have in common.
  struct Common {
    int vocabulary = 0;    ///< The engine's ids.
    int max_model_len = 0; ///< Longest sequence that the engine has.
    int context = 0;       ///< The same, or the draft's context if that is less.
    int page_tokens = 0;
    std::shared_ptr<gpu::KvPool> pool;
    /// Called when there may be news of a chain, on any thread.
    std::function<void()> tell;
  };

  /// begins: a message that begins a sequence (DraftFrom::begins).
  ServedSequence(std::shared_ptr<const Common> common, const messages::DraftFrom& begins);
  ~ServedSequence();
  ServedSequence(const ServedSequence&) = delete;
  ServedSequence& operator=(const ServedSequence&) = delete;

  /// Takes the engine's news of the sequence. Returns where the draft is to go on.
  speculation::Frontier take(const messages::DraftFrom& from);
  /// Adds what the engine has not been told: a window that is whole, or the lookahead behind it;
  /// forks that have been opened, and their tokens. False: there is nothing to be told yet.
  bool add_news(messages::DraftedTokens& news);
  /// Returns how long a pass takes that drafts for it; 0: not known yet.
  base::Duration step() const { return chain_->pace().step; }

private:
  /// A fork that the engine knows of.
  struct Fork {
    speculation::ChainRef chain;
    int position = 0;  ///< Position of its outcome.
    int end = 0;       ///< One past its last position, if it does not end before.
    int sent = 0;      ///< One past the last position that has been sent.
    bool told = false; ///< Whether its tokens have been sent.
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
  std::uint32_t number_ = 0;    ///< The engine's number of the chain.
  bool reads_ = false;          ///< The chain is only there to show that all has been read.
  int sent_ = 0;                ///< One past the last position that has been sent.
  int awaited_ = 0;             ///< Tokens up to here are sent together; 0: none are awaited.
  std::vector<Fork> forks_;     ///< Forks of the chain.
  speculation::Forking forking_;
  bool guesses_ = false; ///< Whether tokens are sent with the guesses beside them.
};

} // namespace paceline::nodes
