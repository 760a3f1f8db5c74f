#include "apps/console/chat/answer_reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <utility>

namespace paceline::apps {

AnswerReader::AnswerReader(text::AnswerParser::Options how, std::string seed, bool short_ids)
    : parser_(how), seed_(std::move(seed)), short_ids_(short_ids), callable_(how.tools != nullptr) {
}

void AnswerReader::begin(std::string_view opening) {
  begun_ = parser_.feed(opening);
  opening_bytes_ = opening.size();
}

std::vector<text::AnswerPiece> AnswerReader::behind_opening(std::vector<text::AnswerPiece> pieces) {
  std::vector<text::AnswerPiece> all = std::exchange(begun_, {});
  for (text::AnswerPiece& piece : pieces)
    append(all, std::move(piece));
  return all;
}

std::vector<text::AnswerPiece> AnswerReader::read(std::string_view text) {
  return behind_opening(parser_.feed(text));
}

std::vector<text::AnswerPiece> AnswerReader::finish() {
  return behind_opening(parser_.finish());
}

text::TextSpan AnswerReader::content() const {
  const auto place = [&](std::size_t at) { return at - std::min(at, opening_bytes_); };
  const text::TextSpan span = parser_.content();
  return {place(span.from), place(span.to)};
}

std::string AnswerReader::call_id(std::size_t index) const {
  constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::uint64_t number = std::hash<std::string>()(fmt::format("{} {}", seed_, index));
  if (!short_ids_)
    return fmt::format("call_{:016x}", number);
  std::string id;
  for (; id.size() < 9; number /= digits.size())
    id += digits[number % digits.size()];
  return id;
}

} // namespace paceline::apps
