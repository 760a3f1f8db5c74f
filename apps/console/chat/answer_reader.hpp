// One answer of a conversation, taken apart as it comes.
#pragma once

#include "text/answer_parser.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Reads one choice's text, behind what the prompt has of it, and names its calls.
class AnswerReader {
public:
  /// seed: what ids of calls are made of; it must be new. short_ids: nine letters and digits, which
  /// is all that some templates take.
  AnswerReader(text::AnswerParser::Options how, std::string seed, bool short_ids);

  /// Takes what the prompt has of the answer, which is no part of it.
  void begin(std::string_view opening);
  /// Returns the pieces that come of a part of the text; there may be none.
  std::vector<text::AnswerPiece> read(std::string_view text);
  /// Ends the text.
  std::vector<text::AnswerPiece> finish();
  /// Returns where the content stands that came last; places count from the prompt's end.
  text::TextSpan content() const;

  /// Whether calls may come.
  bool callable() const { return callable_; }
  /// Returns the id of the call that so many others come before.
  std::string call_id(std::size_t index) const;

private:
  std::vector<text::AnswerPiece> behind_opening(std::vector<text::AnswerPiece> pieces);

  text::AnswerParser parser_;
  std::size_t opening_bytes_ = 0;
  std::vector<text::AnswerPiece> begun_; ///< Pieces of the opening, which come with the first part.
  std::string seed_;
  bool short_ids_;
  bool callable_;
};

} // namespace paceline::apps
