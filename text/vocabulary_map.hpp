// Two vocabularies side by side: which tokens have the same bytes, and how a model with one of them
// reads what a model with the other says.
#pragma once

#include "text/tokenizer.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace paceline::text {

/// Lets a draft model draft for a target with another tokenizer.
///
/// The draft *says* tokens that both have: those of the target whose bytes are the bytes of one of
/// its own (Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding
/// Algorithms for Heterogeneous Vocabularies", section 4). It *reads* each of the target's tokens
/// by itself: as its own token of the same bytes or, if it has none, as what its tokenizer makes of
/// these bytes. What it has read of a text is thus always the beginning of what it reads of any
/// longer one. Immutable. Threads: all members from any.
class VocabularyMap {
public:
  VocabularyMap(const Tokenizer& target, const Tokenizer& draft);

  /// Returns, for each of the target's ids, the draft's id that says the token; -1: it cannot.
  const std::vector<TokenId>& says() const { return says_; }

  /// Appends the draft's ids, at least one, for the target's token at this position of a text. The
  /// draft's own tokenizer decides what stands before a text, in place of the target's.
  void read(int position, TokenId token, std::vector<TokenId>& to) const;
  /// Returns the number of these ids.
  int count(int position, TokenId token) const;

  int shared() const { return shared_; } ///< Tokens of the target that the draft has as well.
  int known() const { return known_; }   ///< Tokens of the target that have bytes.
  double share() const { return double(shared_) / std::max(known_, 1); }

private:
  bool opens(int position, TokenId token) const;
  const std::vector<TokenId>& reading(TokenId token) const;

  std::vector<TokenId> says_;
  std::vector<std::vector<TokenId>> readings_; ///< The draft's ids, for each of the target's ids.
  std::vector<TokenId> opening_;               ///< Ids that the draft reads before any text.
  TokenId target_opening_ = -1;  ///< Id that the target reads before any text; -1: none.
  std::vector<TokenId> unknown_; ///< Ids that stand for tokens without bytes.
  int shared_ = 0;
  int known_ = 0;
};

/// Returns what a draft model needs to draft for a target: null if both have the same vocabulary.
/// Errors: they share less than limits::vocabulary_share_min.
Result<std::shared_ptr<const VocabularyMap>> map_vocabularies(const Tokenizer& target,
                                                              const Tokenizer& draft);

} // namespace paceline::text
