// A reader of the server-sent events of an answer by OpenAI's API.
#pragma once

#include <boost/json/fwd.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::apps::load {

/// The contents of an answer's events so far.
class EventStream {
public:
  /// see: called with each event; may be empty.
  explicit EventStream(std::function<void(const boost::json::value&)> see = {})
      : see_(std::move(see)) {}

  /// Takes more of the answer's bytes, of any length. Returns how many of the events in them
  /// brought text.
  int feed(std::string_view bytes);

  /// Whether the answer was whole: it said why it ended.
  bool complete() const { return complete_; }
  /// Returns the error that the server reported; empty: none.
  const std::string& error() const { return error_; }
  /// Counts of tokens; none: the server did not tell.
  const std::optional<int>& prompt_tokens() const { return prompt_tokens_; }
  const std::optional<int>& output_tokens() const { return output_tokens_; }

private:
  bool take(std::string_view data);

  std::function<void(const boost::json::value&)> see_;
  std::string line_; ///< The current line, whose end has not come yet.
  bool complete_ = false;
  std::string error_;
  std::optional<int> prompt_tokens_;
  std::optional<int> output_tokens_;
};

/// Returns a member of an object; null: it has none of that name, or is no object.
const boost::json::value* member(const boost::json::value* within, std::string_view name);
/// Returns the message of a body in OpenAI's form of errors; empty if it has another form.
std::string error_message(std::string_view body);

} // namespace paceline::apps::load
