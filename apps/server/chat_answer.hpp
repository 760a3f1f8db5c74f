// A chat's answer taken apart: content, reasoning and calls, as OpenAI's messages have them.
#pragma once

#include "apps/console/chat/answer_reader.hpp"

#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// Reads one choice's text. Either `message` is called, or `delta` for each part and `last_delta`.
class ChatAnswer {
public:
  explicit ChatAnswer(AnswerReader reader) : reader_(std::move(reader)) {}

  /// Returns what a part of the text adds to a message; it may be empty.
  boost::json::object delta(std::string_view text) { return delta_of(reader_.read(text)); }
  boost::json::object last_delta() { return delta_of(reader_.finish()); }
  /// Returns the message of a whole text.
  boost::json::object message(std::string_view text);

  /// Whether calls may come.
  bool callable() const { return reader_.callable(); }
  /// Whether a call has come.
  bool called() const { return calls_ > 0; }

private:
  boost::json::object delta_of(const std::vector<text::AnswerPiece>& pieces);
  boost::json::object call_begin(std::string_view name) const;

  AnswerReader reader_;
  std::size_t calls_ = 0;
};

} // namespace paceline::apps::serve
