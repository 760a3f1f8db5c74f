// The suffix automaton of a text that grows: where has its end stood before, and what came then?
#pragma once

#include "paceline/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::speculation {

/// The smallest automaton of all suffixes (Blumer et al. 1985, "The smallest automaton recognizing
/// the subwords of a text"), of one text or several; a token takes constant time on average, and
/// there are at most two states and three edges for each.
///
/// An edge counts how often its token came where its state was the longest context that it had come
/// in before, which is what prediction by partial matching counts ("update exclusion").
class SuffixAutomaton {
public:
  /// The end of some text, as far as it is known here: its last `length` tokens stand in the
  /// automaton's text, and one token more would not.
  struct Place {
    std::uint32_t state = 0;
    int length = 0;
  };

  SuffixAutomaton();

  void append(TokenId token);
  /// The next token begins another text.
  void separate() { last_ = root; }

  /// The longest end of the text that has come in it before.
  Place repeated() const;
  /// Behind `token`, which follows the text that `place` is the end of.
  Place follow(Place place, TokenId token) const;
  /// Tokens that have come behind `place`, or behind the longest end of it that any came behind:
  /// the most frequent first, of the equally frequent the latest. Nothing where no token of it has.
  /// Returns the length of that end. most: how many of them, those that came here first left out.
  int followers(Place place, std::size_t most, std::vector<TokenWeight>& tokens) const;

  std::size_t size() const { return time_; } ///< Tokens appended.
  std::size_t bytes() const;

private:
  static constexpr std::uint32_t root = 0;
  static constexpr std::uint32_t none = ~0u;

  struct State {
    int length = 0;             ///< Of the longest text that leads here.
    std::uint32_t link = none;  ///< The state of its longest end that has come elsewhere, too.
    std::uint32_t edges = none; ///< The newest.
  };
  struct Edge {
    std::uint32_t state = 0;
    TokenId token = 0;
    std::uint32_t target = 0;
    std::uint32_t next = none; ///< Of the same state.
    std::uint32_t count = 0;
    std::uint32_t seen = 0; ///< When it was counted last.
  };

  std::uint32_t add_state(int length, std::uint32_t link);
  void add_edge(std::uint32_t state, TokenId token, std::uint32_t target, std::uint32_t count);
  std::size_t slot_of(std::uint32_t state, TokenId token) const;
  Edge* find(std::uint32_t state, TokenId token);
  const Edge* find(std::uint32_t state, TokenId token) const;
  std::uint32_t end_of(const Edge& edge);
  void grow_slots();
  /// As deep as its length says: a state may have been split since.
  Place settled(Place place) const;

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> slots_; ///< Edges by state and token: open addressing.
  std::uint32_t last_ = root;
  std::uint32_t time_ = 0;
};

} // namespace paceline::speculation
