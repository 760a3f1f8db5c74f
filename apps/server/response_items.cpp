#include "apps/server/response_items.hpp"

#include <fmt/format.h>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

using Kind = text::AnswerPiece::Kind;

/// What an item of one kind is called.
struct Names {
  const char* id;    ///< Begins its id.
  const char* event; ///< Begins the types of the events on its text.
  const char* text;  ///< Its text in the event that ends it.
};

Names names_of(Kind kind) {
  switch (kind) {
  case Kind::reasoning: return {"rs", "response.reasoning_text", "text"};
  case Kind::call: return {"fc", "response.function_call_arguments", "arguments"};
  default: return {"msg", "response.output_text", "text"};
  }
}

/// Returns scores as events have them: without bytes.
json::array in_events(const json::array& scores) {
  json::array all;
  for (const json::value& score : scores) {
    json::object one = score.as_object();
    one.erase("bytes");
    for (json::value& other : one.at("top_logprobs").as_array())
      other.as_object().erase("bytes");
    all.push_back(std::move(one));
  }
  return all;
}

} // namespace

/// Returns the part of an item that has its text; calls have none.
json::object ResponseItems::content() const {
  if (kind_ == Kind::reasoning)
    return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"},
          {"text", text_},
          {"annotations", json::array()},
          {"logprobs", scores_}};
}

json::object ResponseItems::item(const char* status) const {
  json::object item{{"id", item_id_}, {"status", status}};
  if (kind_ == Kind::call) {
    item["type"] = "function_call";
    item["call_id"] = reader_.call_id(calls_ - 1);
    item["name"] = name_;
    item["arguments"] = text_;
    return item;
  }
  item["type"] = kind_ == Kind::reasoning ? "reasoning" : "message";
  if (kind_ == Kind::reasoning)
    item["summary"] = json::array();
  else
    item["role"] = "assistant";
  item["content"] = json::array();
  return item;
}

/// Returns an event on the text of the item under way.
json::object ResponseItems::event(std::string_view type) const {
  json::object event{{"type", type}, {"item_id", item_id_}, {"output_index", output_.size()}};
  if (kind_ != Kind::call)
    event["content_index"] = 0;
  return event;
}

void ResponseItems::open(Kind kind, std::string_view name, Events& events) {
  opened_ = true;
  kind_ = kind;
  item_id_ = fmt::format("{}_{}_{}", names_of(kind).id, id_, output_.size());
  name_ = name;
  text_.clear();
  scores_.clear();
  calls_ += kind == Kind::call;
  events.push_back({{"type", "response.output_item.added"},
                    {"output_index", output_.size()},
                    {"item", item("in_progress")}});
  if (kind == Kind::call)
    return;
  json::object added = event("response.content_part.added");
  added["part"] = content();
  events.push_back(std::move(added));
}

void ResponseItems::close(const char* status, Events& events) {
  if (!std::exchange(opened_, false))
    return;
  const Names names = names_of(kind_);
  json::object done = event(std::string(names.event) + ".done");
  done[names.text] = text_;
  if (kind_ == Kind::content)
    done["logprobs"] = in_events(scores_);
  if (kind_ == Kind::call)
    done["name"] = name_;
  events.push_back(std::move(done));
  json::object whole = item(status);
  if (kind_ != Kind::call) {
    whole["content"] = json::array{content()};
    json::object part = event("response.content_part.done");
    part["part"] = content();
    events.push_back(std::move(part));
  }
  events.push_back(
      {{"type", "response.output_item.done"}, {"output_index", output_.size()}, {"item", whole}});
  output_.push_back(std::move(whole));
}

void ResponseItems::take(const ScoredReader::Piece& scored, Events& events) {
  const text::AnswerPiece& piece = scored.piece;
  if (piece.kind == Kind::call || piece.kind == Kind::call_end) {
    close("completed", events);
    if (piece.kind == Kind::call)
      open(Kind::call, piece.text, events);
    return;
  }
  const bool goes_on = piece.kind == Kind::arguments || (opened_ && kind_ == piece.kind);
  if (!goes_on) {
    close("completed", events);
    open(piece.kind, "", events);
  }
  text_ += piece.text;
  if (piece.kind == Kind::reasoning)
    reasoning_ += piece.text;
  json::object more = event(std::string(names_of(kind_).event) + ".delta");
  more["delta"] = piece.text;
  if (kind_ == Kind::content) {
    more["logprobs"] = in_events(scored.scores);
    scores_.insert(scores_.end(), scored.scores.begin(), scored.scores.end());
  }
  events.push_back(std::move(more));
}

ResponseItems::Events ResponseItems::read(std::string_view text) {
  Events events;
  for (const ScoredReader::Piece& piece : reader_.read(text))
    take(piece, events);
  return events;
}

ResponseItems::Events ResponseItems::finish(bool complete) {
  Events events;
  std::vector<ScoredReader::Piece> pieces = reader_.finish();
  // The end of the text ends a call that is under way; whether that is whole, only `complete` says.
  if (!pieces.empty() && pieces.back().piece.kind == Kind::call_end)
    pieces.pop_back();
  for (const ScoredReader::Piece& piece : pieces)
    take(piece, events);
  if (!opened_ && output_.empty()) // Clients look for an answer.
    open(Kind::content, "", events);
  close(complete ? "completed" : "incomplete", events);
  return events;
}

} // namespace paceline::apps::serve
