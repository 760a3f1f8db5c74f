// Any answer is taken apart into the same pieces wherever it is cut, and nothing of a text without
// calls is lost. The first byte says of which format the answer is, the second where it is cut.
#include "text/answer_parser.hpp"

#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace paceline;
using paceline::testing::require;

/// A family's own marks of reasoning, or the usual ones.
const text::ReasoningFormat* reasoning_of(const text::ToolFormat& format) {
  const auto* own = text::reasoning_format(format.name);
  return own ? own : text::reasoning_format("think");
}

std::vector<text::AnswerPiece> pieces_of(const text::ToolFormat& format, std::string_view answer,
                                         std::size_t cut) {
  text::AnswerParser parser(
      {.tools = &format,
       .functions = {{.name = "f", .parameters = R"({"properties": {"a": {"type": "string"}}})"},
                     {.name = "g"}},
       .reasoning = reasoning_of(format)});
  std::vector<text::AnswerPiece> all;
  for (auto& more :
       {parser.feed(answer.substr(0, cut)), parser.feed(answer.substr(cut)), parser.finish()})
    for (const text::AnswerPiece& piece : more)
      append(all, piece);
  return all;
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  if (input.size() < 2)
    return;
  const auto formats = text::tool_formats();
  const auto& format = formats[static_cast<unsigned char>(input[0]) % formats.size()];
  const std::size_t cut = static_cast<unsigned char>(input[1]);
  input.remove_prefix(2);
  const auto whole = pieces_of(format, input, input.size());
  require(pieces_of(format, input, std::min(cut, input.size())) == whole,
          "pieces do not depend on where an answer is cut");
  bool content_only = true;
  std::string content;
  for (const text::AnswerPiece& piece : whole) {
    content_only = content_only && piece.kind == text::AnswerPiece::Kind::content;
    content += piece.text;
  }
  const auto* reasoning = reasoning_of(format);
  const std::string_view mark = reasoning->channels ? "<|" : reasoning->opening;
  if (content_only && input.find(mark) == std::string_view::npos)
    require(content == input, "an answer without calls is its content");
}
