// An answer taken apart as it comes: how its parts look, and the message that they make.
#pragma once

#include "apps/console/chat/answer_reader.hpp"
#include "apps/terminal/chat/shade.hpp"
#include "paceline/chat.hpp"
#include "text/tool_format.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// A call of a function that an answer makes.
struct Call {
  std::string id;
  std::string name;
  std::string arguments; ///< JSON of an object, unless the answer was cut short.
};

/// Returns the message that tells the model the result of a call.
ChatMessage result_message(const Call& call, const std::string& result);

/// Reads one answer. A call is shown on lines of its own, behind an arrow. Reasoning has its shade
/// or, where there are no shades, stands between the model's own marks.
class AnswerParts {
public:
  /// A part of the answer as it is shown.
  struct Shown {
    std::string text;
    Shade shade;
  };

  /// reader: none: all of the text is content. reasoning: the reader's format. shades: whether
  /// there are any.
  AnswerParts(std::optional<AnswerReader> reader, const text::ReasoningFormat* reasoning,
              bool shades);

  /// Takes the next part of the text. shade: that of its tokens. Text that had to wait for this
  /// part has its shade.
  std::vector<Shown> read(std::string_view text, Shade shade);
  /// Ends the text.
  std::vector<Shown> finish();

  /// Returns the answer as a message; with its calls if they are to be answered.
  ChatMessage message(bool with_calls) const;
  const std::vector<Call>& calls() const { return calls_; }

private:
  using Kind = text::AnswerPiece::Kind;

  void take(const text::AnswerPiece& piece, Shade shade, std::vector<Shown>& shown);
  void begin(Kind kind, std::vector<Shown>& shown);

  std::optional<AnswerReader> reader_;
  const text::ReasoningFormat* reasoning_format_;
  bool shades_;
  std::optional<Kind> kind_; ///< The kind of the part that was begun last.
  std::string content_;
  std::string reasoning_;
  std::vector<Call> calls_;
};

} // namespace paceline::apps
