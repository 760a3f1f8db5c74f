// What requests have said of late, for drafts of those that come.
#pragma once

#include "speculation/lookup/suffix_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace paceline::speculation {

/// Outputs in *books*: automata that are filled one after the other, and go as a whole, the oldest
/// first, when there is no more memory. A book holds outputs of one scope and serves that alone.
class RecentOutputs {
public:
  /// A text's end in the books of its scope.
  struct Place {
    std::uint64_t book = 0;
    SuffixAutomaton::Place in;
  };

  /// memory: bytes, in about `books` books where there is one scope.
  explicit RecentOutputs(std::size_t memory) : memory_(memory) {}

  void add(const std::string& scope, std::span<const TokenId> output);
  /// Has `places` name the books of the scope that there are, a new one without having found
  /// anything yet.
  void refresh(const std::string& scope, std::vector<Place>& places) const;
  /// Null: it has gone.
  const SuffixAutomaton* book(std::uint64_t id) const;
  std::size_t bytes() const;

private:
  static constexpr std::size_t books = 8;

  struct Book {
    std::uint64_t id = 0;
    std::string scope;
    SuffixAutomaton text;
    bool full = false;
  };
  Book& open_book(const std::string& scope);
  void make_room();

  std::size_t memory_;
  std::deque<Book> books_; ///< The oldest first.
  std::uint64_t last_id_ = 0;
};

} // namespace paceline::speculation
