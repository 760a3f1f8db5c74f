#include "apps/server/scored_reader.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;

void ScoredReader::token(std::size_t bytes, json::object score) {
  cutter_.token(bytes);
  scores_.push_back(std::move(score));
}

/// Holds the token of a part, and those before it that have no text of their own.
void ScoredReader::hold(const TokenCutter::Part& part) {
  for (; first_ <= part.token && !scores_.empty(); ++first_) {
    held_.push_back({first_, at_, at_, std::move(scores_.front())});
    scores_.pop_front();
  }
  at_ += part.text.size();
  if (!held_.empty() && held_.back().token == part.token)
    held_.back().to = at_;
}

/// Gives the tokens to the pieces that came of the text behind `from`.
std::vector<ScoredReader::Piece> ScoredReader::scored(std::vector<text::AnswerPiece> pieces,
                                                      std::size_t from) {
  std::vector<Piece> all;
  for (text::AnswerPiece& piece : pieces)
    all.push_back({std::move(piece)});
  const auto [begin, end] = reader_.content();
  const auto said = std::ranges::find(all, text::AnswerPiece::Kind::content,
                                      [](const Piece& one) { return one.piece.kind; });
  if (said == all.end()) {
    // What stands before the text that others were made of is no content.
    while (!all.empty() && !held_.empty() && held_.front().from < from)
      held_.pop_front();
    return all;
  }
  for (; !held_.empty() && held_.front().from < end; held_.pop_front())
    if (Held& one = held_.front(); one.to > begin || one.from >= begin)
      said->scores.push_back(std::move(one.score));
  return all;
}

std::vector<ScoredReader::Piece> ScoredReader::read(std::string_view text) {
  std::vector<Piece> all;
  for (const TokenCutter::Part& part : cutter_.cut(text)) {
    const std::size_t from = at_;
    hold(part);
    auto pieces = scored(reader_.read(part.text), from);
    std::ranges::move(pieces, std::back_inserter(all));
  }
  return all;
}

std::vector<ScoredReader::Piece> ScoredReader::finish() {
  return scored(reader_.finish(), at_);
}

} // namespace paceline::apps::serve
