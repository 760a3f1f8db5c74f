// Takes an answer apart as it comes: reasoning, content, and calls of functions.
#pragma once

#include "text/answer_piece.hpp"
#include "text/tool_format.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// Reads one answer. Wherever its text is cut, the pieces that come of it are the same but for
/// their own cuts. A call counts from the moment where its function, one of the given ones, and the
/// beginning of its arguments were read; what is malformed before that is content. Blanks beside
/// marks are no content; nothing else is left out.
class AnswerParser {
public:
  struct Options {
    const ToolFormat* tools = nullptr; ///< Null: calls are content.
    std::vector<ToolFunction> functions{};
    const ReasoningFormat* reasoning = nullptr; ///< Null: reasoning is content.
    bool in_reasoning = false;                  ///< The prompt ends with the opening mark.
  };
  explicit AnswerParser(Options options);
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;
  ~AnswerParser();

  /// Takes the next part of the text.
  std::vector<AnswerPiece> feed(std::string_view text);
  /// Ends the text. A call that has begun ends, too.
  std::vector<AnswerPiece> finish();
  /// Returns where in the text the content stands that the last of these calls returned.
  TextSpan content() const;

private:
  class State;
  std::unique_ptr<State> state_;
};

} // namespace paceline::text
