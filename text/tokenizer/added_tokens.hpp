// Tokens that are matched in the text itself, before the model sees it.
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

/// Finds the leftmost, longest match of a set of strings. Threads: all const members from any.
class AddedTokens {
public:
  struct Token {
    std::string content; ///< The text that is searched for; not empty.
    TokenId id = 0;
    bool single_word = false; ///< It matches only if no word character is next to it.
    bool lstrip = false;      ///< The match includes white space before it.
    bool rstrip = false;      ///< The match includes white space behind it.
  };
  AddedTokens() = default;
  explicit AddedTokens(const std::vector<Token>& tokens);

  /// Calls on_token(id) for each token and on_text(begin, end) for the text between, in order.
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
    std::size_t begin = 0; ///< Start of the token, with the white space that it includes.
    std::size_t end = 0;
    std::size_t next = 0; ///< The search goes on here, behind the token itself.
    TokenId id = 0;
  };
  std::optional<Match> find(std::string_view text, std::size_t from, std::size_t done) const;
  bool is_allowed(std::string_view text, const Match& match) const;
  void take_space(std::string_view text, std::size_t done, Match& match) const;

  Trie trie_;
  boost::unordered_flat_map<TokenId, Token> rules_; ///< Rules of the tokens that have any.
};

} // namespace paceline::text
