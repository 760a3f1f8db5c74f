// Two vocabularies side by side: which tokens have the same bytes, and how a model of the one reads
// what a model of the other says.
#pragma once

#include "text/tokenizer.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace paceline::text {

/// How a draft model drafts for a target whose tokenizer is another one.
///
/// It *says* what both have: the target's tokens whose bytes are those of one of its own (Timor et
/// al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
/// Heterogeneous Vocabularies", section 4). It *reads* each of the target's tokens by itself: as
/// its own one of the same bytes or, where it has none, as what its tokenizer makes of these bytes.
/// What it has read of a text is thus always the beginning of what it reads of any longer one.
/// Immutable. Threads: all members from any.
class VocabularyMap {
public:
  VocabularyMap(const Tokenizer& target, const Tokenizer& draft);

  /// By the target's ids: the draft's id that says the token; -1: it cannot.
  const std::vector<TokenId>& says() const { return says_; }

  /// Appends the draft's ids, at least one, for the target's token at this position of a text.
  /// Before a text stands what the draft's own tokenizer puts there, in place of the target's.
  void read(int position, TokenId token, std::vector<TokenId>& to) const;
  /// How many these are.
  int count(int position, TokenId token) const;

  int shared() const { return shared_; } ///< Tokens of the target that the draft has as well,
  int known() const { return known_; }   ///< of all that it has.
  double share() const { return double(shared_) / std::max(known_, 1); }

private:
  bool opens(int position, TokenId token) const;
  const std::vector<TokenId>& reading(TokenId token) const;

  std::vector<TokenId> says_;
  std::vector<std::vector<TokenId>> readings_; ///< By the target's ids.
  std::vector<TokenId> opening_;               ///< What the draft reads before any text.
  TokenId target_opening_ = -1;                ///< What the target does; -1: nothing.
  std::vector<TokenId> unknown_;               ///< For what has no bytes.
  int shared_ = 0;
  int known_ = 0;
};

/// What a draft model needs to draft for a target: none where the vocabulary is one. Errors: they
/// share less than limits::vocabulary_share_min.
Result<std::shared_ptr<const VocabularyMap>> map_vocabularies(const Tokenizer& target,
                                                              const Tokenizer& draft);

} // namespace paceline::text
