#include "apps/server/openai_response.hpp"

#include "apps/console/json_text.hpp"
#include "apps/console/output.hpp"
#include "apps/server/token_scores.hpp"
#include "paceline/names.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

/// Adds the fields that only the last part of a choice has.
void add_end(json::object& choice, const Choice& from) {
  const Finished& end = from.answer.end;
  const bool called = from.chat && from.chat->called() && end.reason == FinishReason::stop;
  choice["finish_reason"] = called ? "tool_calls" : to_string(end.reason);
  json::value& reason = choice["stop_reason"] = nullptr;
  if (!end.stop_match.empty())
    reason = end.stop_match;
  else if (from.stop_token)
    reason = *from.stop_token;
  add_origin(choice, end);
}

/// Returns what vLLM reports on speculation under this name. Steps here are those that committed
/// tokens, and drafted tokens are all that the draft wrote, lookahead included.
json::object vllm_metrics(const SpeculationStats& stats) {
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole ? double(part) / double(whole) : 0;
  };
  return {{"speculative_decoding",
           {{"mean_acceptance_length", 1 + ratio(stats.accepted, stats.rounds)},
            {"draft_acceptance_rate", ratio(stats.accepted, stats.drafted)},
            {"num_spec_steps", stats.rounds},
            {"num_accepted_draft_tokens", stats.accepted},
            {"num_draft_tokens", stats.drafted},
            {"num_spec_tokens", stats.window}}}};
}

/// Appends the values of the tokens that follow to lists that have one value for each token.
void append(json::value& scores, json::value more) {
  if (scores.is_null()) {
    scores = std::move(more);
    return;
  }
  for (auto& [name, values] : more.as_object())
    for (json::value& value : values.as_array())
      scores.at(name).as_array().push_back(std::move(value));
}

/// Adds who wrote each token: to the entries of a chat, or as a list of its own.
void add_sources(json::object& scores, const std::vector<TokenSource>& sources) {
  if (json::value* content = scores.if_contains("content")) {
    for (std::size_t i = 0; i < std::min(content->as_array().size(), sources.size()); ++i)
      content->as_array()[i].as_object()["source"] = name_of(sources[i]);
    return;
  }
  json::array& list = scores["sources"].emplace_array();
  for (const TokenSource source : sources)
    list.emplace_back(name_of(source));
}

std::string data(const json::object& object) {
  return "data: " + json_text(object) + "\n\n";
}

} // namespace

json::object CompletionReply::object(const char* kind) const {
  return {{"id", head_.id},
          {"object", kind},
          {"created", head_.created},
          {"model", head_.model},
          {"system_fingerprint", head_.fingerprint}};
}

void CompletionReply::add_usage(json::object& reply, const std::vector<Choice>& choices) const {
  const auto& [sum, stats] = counts_of(choices, asked_.n);
  reply["usage"] = {{"prompt_tokens", sum.prompt_tokens},
                    {"completion_tokens", sum.completion_tokens},
                    {"total_tokens", sum.prompt_tokens + sum.completion_tokens},
                    {"prompt_tokens_details", {{"cached_tokens", sum.cached_tokens}}},
                    {"speculation", speculation_json(stats, sum.completion_tokens)}};
  if (stats.drafted > 0)
    reply["metrics"] = vllm_metrics(stats);
}

json::object CompletionReply::whole(std::vector<Choice>& choices) {
  json::object reply = object(asked_.api == Api::chat ? "chat.completion" : "text_completion");
  json::array list;
  for (Choice& choice : choices) {
    json::object one{{"index", choice.index}};
    if (choice.chat)
      one["message"] = choice.chat->message(choice.answer.text + choice.tail);
    else if (asked_.api == Api::chat)
      one["message"] = {{"role", "assistant"},
                        {"content", choice.answer.text + choice.tail},
                        {"refusal", nullptr}};
    else
      one["text"] = choice.echo + choice.answer.text + choice.tail;
    json::value scores;
    if (asked_.request.logprobs && asked_.echo && choice.prompt)
      scores = echoed_logprobs(choice);
    choice.places.go_behind(choice.echo);
    if (asked_.request.logprobs)
      append(scores, logprobs(choice, choice.answer.logprobs));
    one["logprobs"] = std::move(scores);
    if (asked_.prompt_logprobs && choice.prompt)
      (asked_.api == Api::chat ? reply : one)["prompt_logprobs"] = prompt_scores(*choice.prompt);
    add_end(one, choice);
    list.push_back(std::move(one));
  }
  reply["choices"] = std::move(list);
  add_usage(reply, choices);
  return reply;
}

// ---- streams ----

std::string CompletionReply::event(json::object choice) const {
  json::object reply =
      object(asked_.api == Api::chat ? "chat.completion.chunk" : "text_completion");
  reply["choices"] = json::array{std::move(choice)};
  if (asked_.include_usage)
    reply["usage"] = nullptr;
  return data(reply);
}

json::object CompletionReply::chunk(const Choice& choice, std::string_view text, json::value scores,
                                    bool with_role) const {
  json::object one{{"index", choice.index}};
  if (asked_.api == Api::chat) {
    json::object delta{{"content", text}};
    if (with_role)
      delta["role"] = "assistant";
    one["delta"] = std::move(delta);
  } else {
    one["text"] = text;
  }
  one["logprobs"] = std::move(scores);
  one["finish_reason"] = nullptr;
  return one;
}

/// Returns a chunk with parts of a chat's message; none if there are none, and nothing to say of
/// tokens.
std::string CompletionReply::parts_event(const Choice& choice, json::object parts,
                                         json::value scores) const {
  if (parts.empty() && scores.is_null())
    return {};
  json::object one = chunk(choice, "", std::move(scores), false);
  one["delta"] = std::move(parts);
  return event(std::move(one));
}

/// Returns what stands before the first part of a choice: a role, or the prompt.
std::string CompletionReply::opening(Choice& choice) const {
  if (std::exchange(choice.begun, true))
    return {};
  if (choice.chat && choice.chat->callable())
    return parts_event(choice, {{"role", "assistant"}, {"content", nullptr}}, nullptr);
  if (asked_.api == Api::chat)
    return event(chunk(choice, "", nullptr, true));
  if (choice.echo.empty())
    return {};
  json::value scores;
  if (asked_.request.logprobs && choice.prompt)
    scores = echoed_logprobs(choice);
  choice.places.go_behind(choice.echo);
  return event(chunk(choice, choice.echo, std::move(scores), false));
}

std::string CompletionReply::part(Choice& choice, const Delta& delta) {
  std::string events = opening(choice);
  if (delta.text.empty() && !asked_.request.logprobs)
    return events; // The text is held back until a character or a stop string is decided.
  json::value scores;
  if (asked_.request.logprobs)
    scores = logprobs(choice, delta.logprobs);
  if (asked_.sources)
    add_sources(scores.as_object(), delta.sources);
  if (choice.chat)
    return events + parts_event(choice, choice.chat->delta(delta.text), std::move(scores));
  return events + event(chunk(choice, delta.text, std::move(scores), false));
}

std::string CompletionReply::end(Choice& choice) {
  std::string events = opening(choice);
  if (choice.chat) {
    events += parts_event(choice, choice.chat->delta(choice.tail), nullptr);
    events += parts_event(choice, choice.chat->last_delta(), nullptr);
  } else if (!choice.tail.empty())
    events += event(chunk(choice, choice.tail, nullptr, false));
  json::object last = chunk(choice, "", nullptr, false);
  if (asked_.api == Api::chat)
    last["delta"] = json::object();
  add_end(last, choice);
  return events + event(std::move(last));
}

std::string CompletionReply::epilogue(const std::vector<Choice>& choices) {
  std::string events;
  if (asked_.include_usage) {
    json::object reply =
        object(asked_.api == Api::chat ? "chat.completion.chunk" : "text_completion");
    reply["choices"] = json::array();
    add_usage(reply, choices);
    events = data(reply);
  }
  return events + "data: [DONE]\n\n";
}

std::string CompletionReply::failure(Choice&, const ApiError& error) {
  return "data: " + error_json(error) + "\n\ndata: [DONE]\n\n";
}

// ---- log-probabilities ----

json::value CompletionReply::logprobs(Choice& choice,
                                      const std::vector<TokenLogprob>& tokens) const {
  if (asked_.api == Api::chat)
    return chat_logprobs(tokens);
  std::vector<std::size_t> places;
  for (const TokenLogprob& token : tokens)
    places.push_back(
        choice.places.next(engine_.token_bytes(token.token, asked_.request.skip_special_tokens)));
  return completion_logprobs(tokens, places);
}

/// Returns the log-probabilities of the prompt, as its text stands before the answer. Nothing
/// stands before its first token, which therefore has no probability.
json::value CompletionReply::echoed_logprobs(Choice& choice) const {
  const auto& tokens = choice.prompt->logprobs;
  std::vector<std::size_t> places;
  std::string_view rest = choice.echo;
  for (const TokenLogprob& token : tokens) {
    const std::string part = part_of(rest, token.token);
    rest.remove_prefix(std::min(part.size(), rest.size()));
    places.push_back(choice.places.next(part));
  }
  json::object scores = completion_logprobs(tokens, places);
  if (!tokens.empty())
    for (const char* name : {"token_logprobs", "top_logprobs"})
      scores.at(name).as_array().front() = nullptr;
  return scores;
}

/// Returns the part of a token's text with which `rest` begins: a special token may or may not be
/// in the text, and some tokens lose a blank where a text begins.
std::string CompletionReply::part_of(std::string_view rest, TokenId id) const {
  const std::string bytes = engine_.token_bytes(id, false);
  if (rest.starts_with(bytes))
    return bytes;
  if (bytes.starts_with(' ') && rest.starts_with(std::string_view(bytes).substr(1)))
    return bytes.substr(1);
  return engine_.token_bytes(id);
}

json::object CompletionReply::chat_logprobs(const std::vector<TokenLogprob>& tokens) const {
  json::array content;
  for (const TokenLogprob& token : tokens)
    content.push_back(token_score(engine_, token, asked_.top_logprobs));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// Returns them as vLLM does: for each token of the prompt the likeliest tokens there, and the
/// token itself.
json::array CompletionReply::prompt_scores(const PromptLogprobs& prompt) const {
  json::array all;
  for (const TokenLogprob& token : prompt.logprobs) {
    if (all.empty()) { // Nothing stands before the first token.
      all.emplace_back(nullptr);
      continue;
    }
    json::object one;
    const auto put = [&](TokenId id, float logprob, json::value rank) {
      one.emplace(std::to_string(id), json::object{{"logprob", double(logprob)},
                                                   {"rank", std::move(rank)},
                                                   {"decoded_token", engine_.token_name(id)}});
    };
    std::int64_t rank = 0;
    for (const auto& [id, logprob] : likeliest(token.top, *asked_.prompt_logprobs))
      put(id, logprob, ++rank);
    put(token.token, token.logprob, nullptr); // Nothing changes if it is there already.
    all.push_back(std::move(one));
  }
  return all;
}

/// places: where each token stands in its text.
json::object CompletionReply::completion_logprobs(const std::vector<TokenLogprob>& tokens,
                                                  const std::vector<std::size_t>& places) const {
  json::array names;
  json::array values;
  json::array tops;
  for (const TokenLogprob& token : tokens) {
    std::string name = engine_.token_name(token.token);
    json::object top;
    for (const auto& [id, logprob] : likeliest(token.top, asked_.top_logprobs))
      top.emplace(engine_.token_name(id), double(logprob)); // The likelier of equal names stays.
    top.emplace(name, double(token.logprob));
    names.emplace_back(std::move(name));
    values.emplace_back(double(token.logprob));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", json::array(places.begin(), places.end())}};
}

} // namespace paceline::apps::serve
