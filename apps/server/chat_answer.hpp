// A chat's answer taken apart: content, reasoning and calls, as OpenAI's messages have them.
#pragma once

#include "text/answer_parser.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// Reads one choice's text. Either `message` is called, or `delta` for each part and `last_delta`.
class ChatAnswer {
public:
  /// seed: what ids of calls are made of; it must be new. short_ids: nine letters and digits, which
  /// is all that some templates take.
  ChatAnswer(text::AnswerParser::Options how, std::string seed, bool short_ids);

  /// Takes what the prompt has of the answer, which is no part of it.
  void begin(std::string_view opening);
  /// Returns what a part of the text adds to a message; it may be empty.
  boost::json::object delta(std::string_view text);
  boost::json::object last_delta();
  /// Returns the message of a whole text.
  boost::json::object message(std::string_view text);

  /// Whether calls may come.
  bool callable() const { return callable_; }
  /// Whether a call has come.
  bool called() const { return calls_ > 0; }

private:
  boost::json::object delta_of(std::vector<text::AnswerPiece> pieces);
  boost::json::object call_begin(std::string_view name) const;

  text::AnswerParser parser_;
  std::vector<text::AnswerPiece> begun_; ///< Pieces of the opening, which come with the first part.
  std::string seed_;
  bool short_ids_;
  bool callable_;
  std::size_t calls_ = 0;
};

} // namespace paceline::apps::serve
