// The unigram language model (Kudo 2018), which cuts a text into tokens in the most probable way.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/trie.hpp"
#include "text/tokenizer/vocabulary.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace paceline::text {

/// A unigram model. Immutable. Threads: `encode` from any, each with its own scratch.
class Unigram {
public:
  /// Memory that grows to the longest word and is reused.
  struct Scratch {
    struct Node {
      double score; ///< Log-probability of the best way to get here.
      std::size_t begin;
      TokenId last; ///< -1: nothing leads here yet.
    };
    std::vector<Node> nodes; ///< One per byte of the text, and one for its end.
    std::vector<std::pair<std::size_t, std::size_t>> pieces;
  };

  /// Reads the "model" of tokenizer.json.
  static Result<Unigram> read(Part& part, const Vocabulary& vocabulary);

  /// Appends the word's tokens. A character that no token begins with costs 10 more than the least
  /// probable token; several in a row become one unknown token, or byte tokens. word: valid UTF-8.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

private:
  void find_paths(std::string_view word, Scratch& scratch) const;
  void append_unknown(std::string_view text, std::vector<TokenId>& out) const;

  Trie trie_;
  std::vector<double> scores_; ///< Log-probabilities by id.
  double unknown_score_ = 0;
  TokenId unknown_ = 0;
  std::array<TokenId, 256> fallback_tokens_{}; ///< Tokens such as <0x0A>; -1: none.
};

} // namespace paceline::text
