// An answer of a server, whole or streamed, of completions or chats, in one form.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::conformance {

/// A token with the log-probabilities that the server reports at its place.
struct Scored {
  std::string token{}; ///< Name of the token: mostly its text.
  /// None: the server says null, as for the first token of a prompt.
  std::optional<double> logprob{};
  std::vector<std::pair<std::string, double>> top{}; ///< The likeliest tokens, in falling order.
  std::optional<std::string> bytes{};
  std::optional<std::int64_t> offset{}; ///< Of completions: place of the token in the text.

  /// Returns the log-probability that the list has for a token; none: it is not in the list.
  std::optional<double> listed(std::string_view name) const;
};

struct Choice {
  std::string text; ///< A chat's reasoning comes before its content.
  std::string finish_reason;
  std::vector<Scored> tokens; ///< Empty: no log-probabilities came.

  /// Returns how many of the first tokens make up an echoed prompt, perhaps behind one that begins
  /// every text; none: no such prompt was echoed.
  std::optional<std::size_t> echoed(std::string_view prompt) const;
};

struct Answer {
  unsigned status = 0; ///< 0: no whole answer came.
  std::string error;   ///< Why there is no answer; empty: there is one.
  std::vector<Choice> choices;
  std::optional<int> prompt_tokens;
  std::optional<int> completion_tokens;
  std::optional<int> total_tokens;
  int ends = 0;           ///< Times that a stream gave a reason for an end.
  boost::json::value raw; ///< The whole answer; of a stream its last event with choices.

  // What was asked, and of whom.
  boost::json::object asked;
  bool plain = false; ///< Without speculation.

  bool ok() const { return error.empty() && !choices.empty(); }
  /// Returns the first choice. Call only if `ok`.
  const Choice& first() const { return choices.front(); }
  const std::string& text() const { return choices.front().text; }
  const std::vector<Scored>& tokens() const { return choices.front().tokens; }
};

/// Reads an answer. body: JSON, or the events of a stream.
Answer read_answer(unsigned status, const std::string& body, bool streamed);

/// Returns a text in quotation marks, cut and with its control characters escaped, as evidence
/// shows it.
std::string excerpt(std::string_view text, std::size_t most = 60);

} // namespace paceline::apps::conformance
