#include "speculation/lookup/recent_outputs.hpp"

#include <algorithm>

namespace paceline::speculation {

void RecentOutputs::add(const std::string& scope, std::span<const TokenId> output) {
  Book* book = &open_book(scope);
  book->text.separate();
  for (const TokenId token : output) {
    book->text.append(token);
    if (book->text.bytes() <= memory_ / 2)
      continue;
    book->full = true; // one output alone would fill all books
    make_room();
    book = &open_book(scope);
  }
  book->full |= book->text.bytes() > memory_ / books;
  make_room();
}

RecentOutputs::Book& RecentOutputs::open_book(const std::string& scope) {
  const auto open = std::ranges::find_if(
      books_, [&](const Book& book) { return !book.full && book.scope == scope; });
  if (open != books_.end())
    return *open;
  books_.push_back({++last_id_, scope, {}, false});
  return books_.back();
}

void RecentOutputs::make_room() {
  while (!books_.empty() && bytes() > memory_)
    books_.pop_front();
}

void RecentOutputs::refresh(const std::string& scope, std::vector<Place>& places) const {
  std::erase_if(places, [&](const Place& place) { return !book(place.book); });
  const std::uint64_t newest = places.empty() ? 0 : places.back().book;
  for (const Book& book : books_)
    if (book.scope == scope && book.id > newest)
      places.push_back({book.id, {}});
}

const SuffixAutomaton* RecentOutputs::book(std::uint64_t id) const {
  const auto at = std::ranges::lower_bound(books_, id, {}, &Book::id);
  return at == books_.end() || at->id != id ? nullptr : &at->text;
}

std::size_t RecentOutputs::bytes() const {
  std::size_t sum = 0;
  for (const Book& book : books_)
    sum += sizeof(Book) + book.text.bytes();
  return sum;
}

} // namespace paceline::speculation
