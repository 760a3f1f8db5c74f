#include "apps/server/response_reply.hpp"

#include "apps/console/json_text.hpp"
#include "apps/console/output.hpp"
#include "apps/server/token_scores.hpp"
#include "paceline/names.hpp"

#include <algorithm>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

bool is_complete(const Choice& choice) {
  return choice.answer.end.reason == FinishReason::stop;
}

/// OpenAI has no other codes for what a server may fail by.
const char* code_of(const ApiError& error) {
  return error.status == 429 ? "rate_limit_exceeded" : "server_error";
}

} // namespace

json::object ResponseReply::object(const char* status, const json::array& output) const {
  json::object response{{"id", head_.id},
                        {"object", "response"},
                        {"created_at", head_.created},
                        {"status", status},
                        {"error", nullptr},
                        {"incomplete_details", nullptr},
                        {"model", head_.model},
                        {"system_fingerprint", head_.fingerprint},
                        {"output", output},
                        {"usage", nullptr}};
  for (const auto& [name, value] : asked_.echoed)
    response[name] = value;
  return response;
}

json::object ResponseReply::usage(const std::vector<Choice>& choices) const {
  const auto& [sum, stats] = counts_of(choices, 1);
  // Special tokens around it do not count, so there may be fewer than were written.
  const auto thought = engine_.tokenize(choices.front().items->reasoning(), false, false).size();
  return {
      {"input_tokens", sum.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", sum.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", sum.completion_tokens},
      {"output_tokens_details",
       {{"reasoning_tokens", std::min(int(thought), sum.completion_tokens)}}},
      {"total_tokens", sum.prompt_tokens + sum.completion_tokens},
      {"speculation", speculation_json(stats, sum.completion_tokens)}};
}

json::object ResponseReply::ended(const std::vector<Choice>& choices) const {
  const Choice& choice = choices.front();
  const bool complete = is_complete(choice);
  json::object response = object(complete ? "completed" : "incomplete", choice.items->output());
  if (!complete)
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = usage(choices);
  add_origin(response, choice.answer.end);
  return response;
}

/// Gives the choice's text the log-probabilities of the tokens that come next, if they are wanted.
void ResponseReply::score(Choice& choice, const std::vector<TokenLogprob>& tokens,
                          const std::vector<TokenSource>& sources) const {
  for (std::size_t i = 0; asked_.request.logprobs && i < tokens.size(); ++i) {
    json::object score = token_score(engine_, tokens[i], asked_.top_logprobs);
    if (asked_.sources && i < sources.size())
      score["source"] = name_of(sources[i]);
    const auto bytes = engine_.token_bytes(tokens[i].token, !choice.has_special);
    choice.items->token(bytes.size(), std::move(score));
  }
}

json::object ResponseReply::whole(std::vector<Choice>& choices) {
  Choice& choice = choices.front();
  score(choice, choice.answer.logprobs, {});
  choice.items->read(choice.answer.text + choice.tail);
  choice.items->finish(is_complete(choice));
  return ended(choices);
}

// ---- streams ----

std::string ResponseReply::event(json::object event) {
  event["sequence_number"] = sequence_++;
  return "event: " + std::string(event.at("type").as_string()) + "\ndata: " + json_text(event) +
         "\n\n";
}

std::string ResponseReply::events(ResponseItems::Events events) {
  std::string all;
  for (json::object& one : events)
    all += event(std::move(one));
  return all;
}

std::string ResponseReply::lifecycle(const char* type, json::object response) {
  return event({{"type", type}, {"response", std::move(response)}});
}

std::string ResponseReply::opening(Choice& choice) {
  if (std::exchange(choice.begun, true))
    return {};
  std::string both = lifecycle("response.created", object("in_progress", {}));
  both += lifecycle("response.in_progress", object("in_progress", {}));
  return both;
}

std::string ResponseReply::part(Choice& choice, const Delta& delta) {
  std::string all = opening(choice);
  score(choice, delta.logprobs, delta.sources);
  return all + events(choice.items->read(delta.text));
}

std::string ResponseReply::end(Choice& choice) {
  std::string all = opening(choice);
  all += events(choice.items->read(choice.tail));
  return all + events(choice.items->finish(is_complete(choice)));
}

std::string ResponseReply::epilogue(const std::vector<Choice>& choices) {
  return lifecycle(is_complete(choices.front()) ? "response.completed" : "response.incomplete",
                   ended(choices));
}

std::string ResponseReply::failure(Choice& choice, const ApiError& error) {
  std::string all = opening(choice);
  all += events(choice.items->finish(false));
  json::object response = object("failed", choice.items->output());
  response["error"] = {{"code", code_of(error)}, {"message", error.message}};
  return all + lifecycle("response.failed", std::move(response));
}

} // namespace paceline::apps::serve
