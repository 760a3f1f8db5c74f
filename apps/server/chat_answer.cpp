#include "apps/server/chat_answer.hpp"

#include <boost/json/array.hpp>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

using PieceKind = text::AnswerPiece::Kind;

void add_text(json::object& to, std::string_view name, std::string_view text) {
  json::value& value = to[name];
  if (value.is_null())
    value.emplace_string();
  value.get_string().append(text);
}

} // namespace

json::object ChatAnswer::call_begin(std::string_view name) const {
  return {{"index", calls_},
          {"id", reader_.call_id(calls_)},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", ""}}}};
}

/// Puts pieces into a delta. A call is in it once, since clients add up what deltas have of each.
json::object ChatAnswer::delta_of(const std::vector<text::AnswerPiece>& pieces) {
  json::object delta;
  json::array calls;
  for (const text::AnswerPiece& piece : pieces)
    switch (piece.kind) {
    case PieceKind::content: add_text(delta, "content", piece.text); break;
    case PieceKind::reasoning: add_text(delta, "reasoning_content", piece.text); break;
    case PieceKind::call:
      calls.push_back(call_begin(piece.text));
      ++calls_;
      break;
    case PieceKind::arguments:
      if (calls.empty()) // the call began in an earlier delta
        calls.push_back(json::object{{"index", calls_ - 1}, {"function", {{"arguments", ""}}}});
      add_text(calls.back().at("function").as_object(), "arguments", piece.text);
      break;
    case PieceKind::call_end: break;
    }
  if (!calls.empty())
    delta["tool_calls"] = std::move(calls);
  return delta;
}

json::object ChatAnswer::message(std::string_view text) {
  std::vector<text::AnswerPiece> pieces = reader_.read(text);
  for (text::AnswerPiece& piece : reader_.finish())
    append(pieces, std::move(piece));
  json::object parts = delta_of(pieces);
  json::object message{{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  if (called())
    message["content"] = nullptr;
  for (auto& [name, value] : parts)
    message[name] = std::move(value);
  if (auto* calls = message.if_contains("tool_calls"))
    for (json::value& call : calls->as_array())
      call.as_object().erase("index");
  return message;
}

} // namespace paceline::apps::serve
