// Tokens that are matched in the text itself, before the model looks at it.
#pragma once

#include "paceline/request.hpp"
#include "text/tokenizer/trie.hpp"

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {

/// Finds the leftmost, longest of a set of strings. Threads: all const members from any.
class AddedTokens {
public:
  struct Token {
    std::string content; ///< As it is looked for; not empty.
    TokenId id = 0;
    bool single_word = false; ///< Not next to a word character.
    bool lstrip = false;      ///< Takes the white space before it along,
    bool rstrip = false;      ///< and after it.
  };
  AddedTokens() = default;
  explicit AddedTokens(const std::vector<Token>& tokens);

  /// Calls on_token(id) for each token and on_text(begin, end) for what lies between, in order.
  template <class OnText, class OnToken>
  void split(std::string_view text, OnText on_text, OnToken on_token) const {
    std::size_t done = 0;
    std::size_t from = 0;
    while (const auto match = find(text, from, done)) {
      if (done < match->begin)
        on_text(done, match->begin);
      on_token(match->id);
      done = match->end;
      from = match->next;
    }
    if (done < text.size())
      on_text(done, text.size());
  }

private:
  struct Match {
    std::size_t begin = 0; ///< Of the token and the white space it takes along.
    std::size_t end = 0;
    std::size_t next = 0; ///< Where the search goes on: behind the token itself.
    TokenId id = 0;
  };
  std::optional<Match> find(std::string_view text, std::size_t from, std::size_t done) const;
  bool is_allowed(std::string_view text, const Match& match) const;
  void take_space(std::string_view text, std::size_t done, Match& match) const;

  Trie trie_;
  boost::unordered_flat_map<TokenId, Token> rules_; ///< Of those with any.
};

} // namespace paceline::text
