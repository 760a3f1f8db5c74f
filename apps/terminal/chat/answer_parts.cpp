#include "apps/terminal/chat/answer_parts.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace paceline::apps {
namespace json = boost::json;
namespace {

constexpr const char* call_arrow = "\u2192 ";

std::string text_json(const std::string& text) {
  return json::serialize(json::string(text));
}

json::array calls_json(const std::vector<Call>& calls) {
  json::array all;
  for (const Call& call : calls)
    all.push_back({{"id", call.id},
                   {"type", "function"},
                   {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return all;
}

} // namespace

ChatMessage result_message(const Call& call, const std::string& result) {
  return {"tool", result, {{"tool_call_id", text_json(call.id)}, {"name", text_json(call.name)}}};
}

AnswerParts::AnswerParts(std::optional<AnswerReader> reader, const text::ReasoningFormat* reasoning,
                         bool shades)
    : reader_(std::move(reader)), reasoning_format_(reasoning), shades_(shades) {}

/// Shows what stands between the part before, if there is one, and a part of this kind.
void AnswerParts::begin(Kind kind, std::vector<Shown>& shown) {
  const auto before = std::exchange(kind_, kind);
  std::string between = before ? "\n" : "";
  if (before == Kind::reasoning)
    between += shades_ ? "\n" : std::string(reasoning_format_->closing) + "\n";
  if (kind == Kind::reasoning && !shades_)
    between += std::string(reasoning_format_->opening) + "\n";
  if (!between.empty())
    shown.push_back({std::move(between), {}});
}

void AnswerParts::take(const text::AnswerPiece& piece, Shade shade, std::vector<Shown>& shown) {
  const bool goes_on = kind_ == piece.kind || piece.kind == Kind::arguments;
  if (piece.kind == Kind::call_end)
    return;
  if (piece.kind == Kind::call || !goes_on)
    begin(piece.kind, shown);
  switch (piece.kind) {
  case Kind::content: content_ += piece.text; break;
  case Kind::reasoning:
    reasoning_ += piece.text;
    shade = shades_ ? thought_shade : Shade();
    break;
  case Kind::call:
    calls_.push_back({reader_->call_id(calls_.size()), piece.text, {}});
    shown.push_back({call_arrow + piece.text + " ", shades_ ? call_shade : Shade()});
    return;
  case Kind::arguments: calls_.back().arguments += piece.text; break;
  case Kind::call_end: break;
  }
  shown.push_back({piece.text, shade});
}

std::vector<AnswerParts::Shown> AnswerParts::read(std::string_view text, Shade shade) {
  std::vector<Shown> shown;
  if (!reader_)
    take({Kind::content, std::string(text)}, shade, shown);
  else
    for (const text::AnswerPiece& piece : reader_->read(text))
      take(piece, shade, shown);
  return shown;
}

std::vector<AnswerParts::Shown> AnswerParts::finish() {
  std::vector<Shown> shown;
  if (reader_)
    for (const text::AnswerPiece& piece : reader_->finish())
      take(piece, {}, shown);
  return shown;
}

ChatMessage AnswerParts::message(bool with_calls) const {
  ChatMessage message{"assistant", content_, {}};
  if (!reasoning_.empty())
    message.fields.emplace_back("reasoning_content", text_json(reasoning_));
  if (with_calls && !calls_.empty())
    message.fields.emplace_back("tool_calls", json::serialize(calls_json(calls_)));
  return message;
}

} // namespace paceline::apps
