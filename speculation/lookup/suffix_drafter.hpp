// Suffix decoding: the longest end of a text that has stood somewhere before says how it goes on.
#pragma once

#include "paceline/drafter.hpp"
#include "speculation/lookup/match_odds.hpp"
#include "speculation/lookup/recent_outputs.hpp"
#include "speculation/lookup/suffix_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paceline::speculation {

/// Looks in the sequence's own prompt and output, and in recent outputs of its scope (after Oliaro
/// et al. 2024, "SuffixDecoding"). Counts of what came behind the longest match are q; how far a
/// proposal goes follows from how often such matches were right before.
class SuffixDrafter final : public Drafter {
public:
  /// memory: bytes of everything that it remembers, half for sequences under way and half for
  /// recent outputs.
  explicit SuffixDrafter(std::size_t memory) : memory_(memory / 2), outputs_(memory / 2) {}

  void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override;
  void end(std::uint64_t sequence, std::span<const TokenId> tokens) override;
  void propose(std::span<DraftTask* const> tasks) override;

private:
  struct Text {
    std::string scope;
    float temperature = 0;
    std::size_t begun = 0;   ///< Tokens that the sequence had when it began.
    std::size_t indexed = 0; ///< Leading tokens that `own`, `others` and `odds` know.
    SuffixAutomaton own;
    std::vector<RecentOutputs::Place> others; ///< Places of its end in recent outputs.
    MatchOdds odds;
  };
  /// The longest match of a text's end, drafted tokens included, and the automaton that has it.
  struct Match {
    const SuffixAutomaton* in = nullptr;
    SuffixAutomaton::Place place;
    void follow(TokenId token) { place = in->follow(place, token); }
  };

  void index(Text& text, std::span<const TokenId> committed);
  void append(Text& text, TokenId token);
  static void forget_half(Text& text, std::span<const TokenId> known);
  Match longest(const Text& text, std::span<const TokenId> drafted) const;
  void propose(Text& text, DraftTask& task);

  std::size_t memory_; ///< Bytes for all of `texts_`.
  std::map<std::uint64_t, Text> texts_;
  RecentOutputs outputs_;
  std::vector<TokenWeight> followers_; ///< Followers of the match at hand.
};

} // namespace paceline::speculation
