// An answer as OpenAI's API streams it: server-sent events, read as they come.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps::load {

/// What an answer's events said so far.
class EventStream {
public:
  /// Takes more of the answer's bytes, of whatever length; how many of the events in them brought
  /// text.
  int feed(std::string_view bytes);

  /// The answer was whole: it said why it ended.
  bool complete() const { return complete_; }
  /// What the server said went wrong; empty: nothing.
  const std::string& error() const { return error_; }
  /// Counts of tokens; none: the server did not tell.
  const std::optional<int>& prompt_tokens() const { return prompt_tokens_; }
  const std::optional<int>& output_tokens() const { return output_tokens_; }

private:
  bool take(std::string_view data);

  std::string line_; ///< Not yet at its end.
  bool complete_ = false;
  std::string error_;
  std::optional<int> prompt_tokens_;
  std::optional<int> output_tokens_;
};

/// What a body of OpenAI's errors says; empty: it is none.
std::string error_message(std::string_view body);

} // namespace paceline::apps::load
