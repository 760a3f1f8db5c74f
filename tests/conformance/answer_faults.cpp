#include "tests/conformance/faults.hpp"

#include <boost/json/array.hpp>

namespace paceline::testing {
namespace json = boost::json;
namespace {

using Body = json::object;

/// Calls `change` for each choice of an answer, or of an event.
template <class Change>
void each_choice(Body& answer, const Change& change) {
  if (auto* choices = answer.if_contains("choices"))
    for (json::value& choice : choices->as_array())
      change(choice.as_object());
}

/// Changes the texts of answers to requests of a kind.
template <class Kind, class Change>
auto text_of(Kind kind, Change change) {
  return [kind, change](Exchange& exchange, Body& answer) {
    if (kind(exchange))
      each_choice(answer, [&](json::object& choice) {
        auto* text = choice.if_contains("text");
        if (auto* message = choice.if_contains("message"))
          text = message->as_object().if_contains("content");
        if (text && text->is_string())
          change(exchange, text->get_string());
      });
  };
}

void spoil_end(const Exchange&, json::string& text) {
  if (text.size() > 1)
    text.back() = '~';
}

/// Changes a list of the log-probabilities, where there are any.
template <class Kind, class Change>
auto scores_of(Kind kind, const char* name, Change change) {
  return [kind, name, change](Exchange& exchange, Body& answer) {
    if (kind(exchange))
      each_choice(answer, [&](json::object& choice) {
        auto* scores = choice.if_contains("logprobs");
        if (scores && scores->is_object())
          change(scores->as_object().at(name).as_array());
      });
  };
}

template <class Kind>
auto usage_of(Kind kind, const char* name, int more) {
  return [kind, name, more](Exchange& exchange, Body& answer) {
    auto* usage = answer.if_contains("usage");
    if (kind(exchange) && usage && usage->is_object()) {
      json::value& count = usage->as_object().at(name);
      count = count.to_number<int>() + more;
    }
  };
}

template <class Kind>
auto reason_of(Kind kind, const char* reason) {
  return [kind, reason](Exchange& exchange, Body& answer) {
    if (kind(exchange))
      each_choice(answer, [&](json::object& choice) { choice["finish_reason"] = reason; });
  };
}

/// Lowers all log-probabilities that are numbers.
void lower(json::array& values) {
  for (json::value& value : values)
    if (value.is_number())
      value = value.to_number<double>() - 0.3;
}

bool any(const Exchange&) {
  return true;
}
bool again(const Exchange& exchange) {
  return exchange.times > 0;
}
bool speculates(const Exchange& exchange) {
  return !exchange.has("speculation");
}
bool streams(const Exchange& exchange) {
  return exchange.streams();
}
bool stops(const Exchange& exchange) {
  return exchange.has("stop");
}

std::vector<Fault> text_faults() {
  return {
      {"another answer when asked again", "equality/repeat", {}, text_of(again, spoil_end)},
      {"a stream that loses a byte",
       "equality/streamed",
       {},
       text_of(streams,
               [](auto& exchange, auto& text) {
                 if (exchange.events == 0 && text.size() > 1)
                   text.pop_back();
               })},
      {"speculation changes the text", "equality/speculation", {}, text_of(speculates, spoil_end)},
      {"company changes the text",
       "equality/company",
       {},
       text_of([](auto& exchange) { return !exchange.alone; }, spoil_end)},
      {"a cached prefix changes the answer", "equality/prefixes", {}, text_of(again, spoil_end)},
      {"the context's end is called a stop",
       "equality/context",
       {},
       reason_of([](auto& exchange) { return exchange.has("ignore_eos"); }, "stop")},
      {"a window at the context's end is wrong",
       "equality/context",
       {},
       text_of([](auto& exchange) { return speculates(exchange) && exchange.has("ignore_eos"); },
               spoil_end)},
      {"a schema's answer differs with speculation",
       "structure/speculation",
       {},
       text_of(speculates, [](auto&, auto& text) { text += " "; })},
      {"an answer that its schema does not allow",
       "structure/schema",
       {},
       text_of(any, [](auto&, auto& text) { text = R"({"color": "red", "ripe": 1, "size": 2})"; })},
      {"a json_object that is a list",
       "structure/json-object",
       {},
       text_of(any, [](auto&, auto& text) { text = "[]"; })},
  };
}

std::vector<Fault> end_faults() {
  return {
      {"usage counts one less", "ends/usage", {}, usage_of(any, "completion_tokens", -1)},
      {"usage's sum is wrong", "ends/usage", {}, usage_of(any, "total_tokens", 1)},
      {"one token more than max_tokens",
       "ends/max-tokens",
       [](Exchange& exchange) {
         if (auto* most = exchange.request.if_contains("max_tokens"))
           *most = most->to_number<int>() + 1;
       },
       {}},
      {"the stop string's first byte leaks",
       "ends/stop",
       {},
       text_of(stops,
               [](auto& exchange, auto& text) {
                 text.push_back(exchange.request.at("stop").at(0).as_string().front());
               })},
      {"a stop is called length", "ends/stop", {}, reason_of(stops, "length")},
      {"the stop string leaks in a stream",
       "ends/stop-streamed",
       {},
       text_of([](auto& exchange) { return stops(exchange) && exchange.events == 0; },
               [](auto& exchange, auto& text) {
                 text.push_back(exchange.request.at("stop").at(0).as_string().front());
               })},
      {"a stop id goes on for a byte",
       "ends/stop-ids",
       {},
       text_of([](auto& exchange) { return exchange.has("stop_token_ids"); },
               [](auto&, auto& text) { text += "~"; })},
      {"a stream that says twice why it ends",
       "ends/stream",
       {},
       reason_of([](auto& exchange) { return exchange.streams() && exchange.events < 1; },
                 "length")},
      {"a stream that counts one more", "ends/stream", {}, usage_of(any, "completion_tokens", 1)},
      {"ignore_eos ends three tokens early",
       "ends/ignore-eos",
       [](Exchange& exchange) {
         if (exchange.has("ignore_eos"))
           exchange.request["max_tokens"] = exchange.request.at("max_tokens").to_number<int>() - 3;
       },
       {}},
  };
}

std::vector<Fault> score_faults() {
  return {
      {"log-probabilities are all 0",
       "logprobs/possible",
       {},
       scores_of(any, "token_logprobs",
                 [](json::array& values) {
                   for (json::value& value : values)
                     value = 0.0;
                 })},
      {"a log-probability above 0",
       "logprobs/possible",
       {},
       scores_of(any, "token_logprobs", [](json::array& values) { values.back() = 0.5; })},
      {"log-probabilities of the place before",
       "logprobs/possible",
       {},
       scores_of(any, "token_logprobs",
                 [](json::array& values) {
                   if (values.size() > 1)
                     std::rotate(values.begin(), values.end() - 1, values.end());
                 })},
      {"the lists' probabilities are doubled",
       "logprobs/possible",
       {},
       scores_of(any, "top_logprobs",
                 [](json::array& values) {
                   for (json::value& list : values)
                     for (auto& [name, value] : list.as_object())
                       value = value.to_number<double>() + 0.69;
                 })},
      {"a token is missing",
       "logprobs/text",
       {},
       [](Exchange&, Body& answer) {
         each_choice(answer, [](json::object& choice) {
           auto* scores = choice.if_contains("logprobs");
           if (scores && scores->is_object() && scores->at("tokens").as_array().size() > 1)
             for (auto& [name, values] : scores->as_object())
               values.as_array().erase(values.as_array().begin());
         });
       }},
      {"text_offset is one too much behind the first token",
       "logprobs/offsets",
       {},
       scores_of(any, "text_offset",
                 [](json::array& values) {
                   for (std::size_t i = 1; i < values.size(); ++i)
                     values[i] = values[i].to_number<int>() + 1;
                 })},
      {"echo scores otherwise",
       "logprobs/echo",
       {},
       scores_of([](auto& exchange) { return exchange.has("echo"); }, "token_logprobs", lower)},
      {"a stream's log-probabilities are others",
       "logprobs/streamed",
       {},
       scores_of(streams, "token_logprobs", lower)},
      {"log-probabilities change with speculation",
       "logprobs/speculation",
       {},
       scores_of(speculates, "token_logprobs", lower)},
  };
}

} // namespace

std::vector<Fault> answer_faults() {
  std::vector<Fault> all = text_faults();
  for (const auto& more : {end_faults(), score_faults()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace paceline::testing
