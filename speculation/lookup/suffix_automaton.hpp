// The suffix automaton of a growing text finds where the text's end has stood before, and what
// followed.
#pragma once

#include "paceline/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::speculation {

/// The smallest automaton of all suffixes (Blumer et al. 1985, "The smallest automaton recognizing
/// the subwords of a text"), of one text or several. Appending a token takes constant time on
/// average, and there are at most two states and three edges for each token.
///
/// An edge counts how often its token came while its state was the longest context in which the
/// token had come before, as prediction by partial matching counts ("update exclusion").
class SuffixAutomaton {
public:
  /// The end of some text, as far as it is known here: the text's last `length` tokens stand in the
  /// automaton's text, and its last `length` + 1 tokens do not.
  struct Place {
    std::uint32_t state = 0;
    int length = 0;
  };

  SuffixAutomaton();

  void append(TokenId token);
  /// Makes the next token begin another text.
  void separate() { last_ = root; }

  /// Returns the longest end of the text that has stood in it before.
  Place repeated() const;
  /// Returns the place behind `token`, which follows the text whose end is at `place`.
  Place follow(Place place, TokenId token) const;
  /// Collects the tokens that have come behind `place` or, where none has, behind its longest end
  /// that some have come behind. The most frequent stands first, of equally frequent ones the
  /// latest. Returns that end's length; 0, and no tokens, where there is none. most: how many
  /// tokens at most; those that came here first are left out.
  int followers(Place place, std::size_t most, std::vector<TokenWeight>& tokens) const;

  std::size_t size() const { return time_; } ///< Tokens appended.
  std::size_t bytes() const;

private:
  static constexpr std::uint32_t root = 0;
  static constexpr std::uint32_t none = ~0u;

  struct State {
    int length = 0;             ///< Length of the longest text that leads here.
    std::uint32_t link = none;  ///< State of that text's longest end that came elsewhere, too.
    std::uint32_t edges = none; ///< The newest edge.
  };
  struct Edge {
    std::uint32_t state = 0;
    TokenId token = 0;
    std::uint32_t target = 0;
    std::uint32_t next = none; ///< The next edge of the same state.
    std::uint32_t count = 0;
    std::uint32_t seen = 0; ///< Value of `time_` when it was counted last.
  };

  std::uint32_t add_state(int length, std::uint32_t link);
  void add_edge(std::uint32_t state, TokenId token, std::uint32_t target, std::uint32_t count);
  std::size_t slot_of(std::uint32_t state, TokenId token) const;
  Edge* find(std::uint32_t state, TokenId token);
  const Edge* find(std::uint32_t state, TokenId token) const;
  std::uint32_t end_of(const Edge& edge);
  void grow_slots();
  /// Returns the place with the state that its length asks for: a state may have been split since.
  Place settled(Place place) const;

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> slots_; ///< Edges by state and token: open addressing.
  std::uint32_t last_ = root;
  std::uint32_t time_ = 0;
};

} // namespace paceline::speculation
