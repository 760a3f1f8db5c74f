// Keeps recent outputs of requests, from which later ones are drafted.
#pragma once

#include "speculation/lookup/suffix_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace paceline::speculation {

/// The recent outputs are kept in *books*: automata that are filled one after the other and
/// forgotten as a whole, the oldest first, when memory is short. A book holds and serves outputs of
/// one scope.
class RecentOutputs {
public:
  /// The place of a text's end in a book of its scope.
  struct Place {
    std::uint64_t book = 0;
    SuffixAutomaton::Place in;
  };

  /// memory: bytes, in about `books` books where there is only one scope.
  explicit RecentOutputs(std::size_t memory) : memory_(memory) {}

  void add(const std::string& scope, std::span<const TokenId> output);
  /// Makes `places` name the scope's present books; a book that is new there has no match yet.
  void refresh(const std::string& scope, std::vector<Place>& places) const;
  /// Returns null when the book has been forgotten.
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
