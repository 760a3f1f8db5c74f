// An answer taken apart, with the scores of the tokens that its content is made of.
#pragma once

#include "apps/console/chat/answer_reader.hpp"
#include "apps/console/token_cutter.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

/// Reads one answer and finds, for each piece of content, the tokens that wrote it: those of
/// reasoning, calls and marks are left out, and each of content comes once.
class ScoredReader {
public:
  struct Piece {
    text::AnswerPiece piece;
    boost::json::array scores{}; ///< Only content has some.
  };

  explicit ScoredReader(AnswerReader reader) : reader_(std::move(reader)) {}

  /// Adds the next token, which appends so many bytes to the text. Without tokens there are no
  /// scores.
  void token(std::size_t bytes, boost::json::object score);
  /// Returns what comes of a part of the text, whose tokens have been added.
  std::vector<Piece> read(std::string_view text);
  /// Ends the text.
  std::vector<Piece> finish();

  std::string call_id(std::size_t index) const { return reader_.call_id(index); }

private:
  /// A token whose text was read, and may be content. Places are those of bytes in the text.
  struct Held {
    std::size_t token;
    std::size_t from;
    std::size_t to;
    boost::json::object score;
  };

  void hold(const TokenCutter::Part& part);
  std::vector<Piece> scored(std::vector<text::AnswerPiece> pieces, std::size_t from);

  AnswerReader reader_;
  TokenCutter cutter_;
  std::deque<boost::json::object> scores_; ///< Those of tokens whose text is to come.
  std::size_t first_ = 0;                  ///< Number of the first of these tokens.
  std::deque<Held> held_;
  std::size_t at_ = 0; ///< Bytes that were read.
};

} // namespace paceline::apps::serve
