// A response's answer taken apart: output items, as OpenAI's /v1/responses has them.
#pragma once

#include "apps/server/scored_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

/// Makes items (reasoning, message, function_call) of one answer's text, and the events that tell
/// of them. Events have no sequence numbers yet.
class ResponseItems {
public:
  using Events = std::vector<boost::json::object>;

  /// id: what ids of items are made of.
  ResponseItems(AnswerReader reader, std::string id)
      : reader_(std::move(reader)), id_(std::move(id)) {}

  /// Adds a token, and its score, to the text that comes next: ScoredReader's.
  void token(std::size_t bytes, boost::json::object score) {
    reader_.token(bytes, std::move(score));
  }
  Events read(std::string_view text);
  /// Ends the text. complete: the model ended it; else the last item is cut short.
  Events finish(bool complete);

  /// Returns the items that have ended.
  const boost::json::array& output() const { return output_; }
  /// Returns what the model thought before it answered.
  const std::string& reasoning() const { return reasoning_; }

private:
  using Kind = text::AnswerPiece::Kind;

  void take(const ScoredReader::Piece& scored, Events& events);
  void open(Kind kind, std::string_view name, Events& events);
  void close(const char* status, Events& events);
  boost::json::object item(const char* status) const;
  boost::json::object content() const;
  boost::json::object event(std::string_view type) const;

  ScoredReader reader_;
  std::string id_;
  boost::json::array output_;
  std::string reasoning_;
  std::size_t calls_ = 0; ///< Calls that have begun.
  bool opened_ = false;   ///< Whether an item is under way; the next five are of it.
  Kind kind_ = Kind::content;
  std::string item_id_;
  std::string name_;          ///< The function that is called.
  std::string text_;          ///< Its text, or its arguments.
  boost::json::array scores_; ///< Those of its tokens, if they are wanted.
};

} // namespace paceline::apps::serve
