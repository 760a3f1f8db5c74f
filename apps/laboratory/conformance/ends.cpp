// Checks of how answers end: lengths, stop strings and ids, the end of the text, what is counted.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int lengths_most = 40;

Finding no_long_answer() {
  return {Verdict::not_decidable, "no greedy answer is long enough: try another model", ""};
}

/// Checks the counts of an answer against one another, and against its tokens if it has them.
std::optional<std::string> miscounted(const Answer& answer) {
  if (!answer.completion_tokens || !answer.prompt_tokens)
    return "usage does not count";
  const int tokens = int(answer.tokens().size());
  // The token that ended the text may be counted and not shown, or the other way round.
  const bool by_token = answer.first().finish_reason == "stop";
  if (tokens > 0 && std::abs(tokens - *answer.completion_tokens) > int(by_token))
    return fmt::format("usage counts {} tokens, and {} have log-probabilities",
                       *answer.completion_tokens, tokens);
  if (answer.total_tokens &&
      *answer.total_tokens != *answer.prompt_tokens + *answer.completion_tokens)
    return fmt::format("usage adds {} and {} to {}", *answer.prompt_tokens,
                       *answer.completion_tokens, *answer.total_tokens);
  return std::nullopt;
}

Finding check_lengths(Subject& subject) {
  const auto whole = subject.long_answer(lengths_most);
  if (!whole)
    return no_long_answer();
  std::vector<json::object> bodies;
  for (int tokens = 1; tokens <= lengths_most; ++tokens) {
    bodies.push_back(whole->asked);
    bodies.back().erase("logprobs");
    bodies.back().erase("top_logprobs");
    bodies.back()["max_tokens"] = tokens;
  }
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  for (int tokens = 1; tokens <= lengths_most; ++tokens) {
    const Answer& answer = answers[std::size_t(tokens - 1)];
    if (answer.completion_tokens && *answer.completion_tokens != tokens)
      return subject.say(
          Verdict::fail,
          fmt::format("with max_tokens {}, usage counts {}", tokens, *answer.completion_tokens),
          answer);
    if (answer.first().finish_reason != "length")
      return subject.say(Verdict::fail,
                         fmt::format("with max_tokens {}, the answer ends by \"{}\"", tokens,
                                     answer.first().finish_reason),
                         answer);
    // A character that is not whole may be left out, or shown as one that cannot be.
    if (common_bytes(whole->text(), answer.text()) + 4 < answer.text().size())
      return subject.say(Verdict::fail,
                         fmt::format("with max_tokens {}, the text is not the longer one's "
                                     "beginning: {}",
                                     tokens, excerpt(answer.text())),
                         answer);
  }
  return subject.say(Verdict::pass, fmt::format("each length from 1 to {}", lengths_most),
                     answers.back());
}

/// Returns texts that begin in the midst of a token and end in the midst of another one: what a
/// stop string must be found as, across a border.
std::vector<std::string> across_borders(const Answer& whole) {
  std::vector<std::string> stops;
  std::size_t at = 0;
  for (const Scored& token : whole.tokens()) {
    const std::size_t border = at += token.token.size();
    if (border >= 2 && border + 2 <= whole.text().size() && stops.size() < 24) {
      std::string stop = whole.text().substr(border - 1, 2);
      const bool ascii = std::ranges::all_of(stop, [](char c) { return c >= ' ' && c < 0x7f; });
      if (ascii && std::ranges::find(stops, stop) == stops.end())
        stops.push_back(std::move(stop));
    }
  }
  return stops;
}

Finding check_stop_strings(Subject& subject, bool streamed) {
  const auto whole = subject.long_answer(lengths_most);
  if (!whole)
    return no_long_answer();
  std::vector<std::string> stops = across_borders(*whole);
  if (stops.empty()) // Without log-probabilities nobody knows the borders.
    for (std::size_t i = 2; i + 3 < whole->text().size() && stops.size() < 24; i += 3)
      stops.push_back(whole->text().substr(i, 3));
  std::vector<json::object> bodies;
  for (const std::string& stop : stops) {
    bodies.push_back(whole->asked);
    bodies.back().erase("logprobs");
    bodies.back().erase("top_logprobs");
    bodies.back()["stop"] = json::array{stop};
    if (streamed)
      bodies.back()["stream"] = true;
  }
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::string wanted = whole->text().substr(0, whole->text().find(stops[i]));
    if (answers[i].text() != wanted)
      return subject.say(
          Verdict::fail,
          fmt::format(
              "stopped at {}, the text ends with {}, not with {}", excerpt(stops[i]),
              excerpt(std::string_view(answers[i].text())
                          .substr(common_bytes(answers[i].text(), wanted))),
              excerpt(std::string_view(wanted).substr(common_bytes(answers[i].text(), wanted)))),
          answers[i]);
    if (answers[i].first().finish_reason != "stop")
      return subject.say(Verdict::fail,
                         fmt::format("stopped at {}, the answer ends by \"{}\"", excerpt(stops[i]),
                                     answers[i].first().finish_reason),
                         answers[i]);
  }
  if (stops.empty())
    return subject.say(Verdict::not_decidable, "the answer has no text to stop at", *whole);
  return subject.say(Verdict::pass, fmt::format("{} stop strings", stops.size()), answers.front());
}

Finding check_stop_ids(Subject& subject) {
  const auto whole = subject.top() > 0 ? subject.long_answer(lengths_most) : std::nullopt;
  if (!whole)
    return no_long_answer();
  const auto tokens = subject.known_tokens(*whole, 6);
  if (tokens.empty())
    return subject.say(Verdict::not_decidable, "/tokenize does not tell ids of tokens", *whole);
  Answer shown;
  for (const KnownToken& token : tokens) {
    std::string before;
    for (std::size_t i = 0; i < token.place; ++i)
      before += whole->tokens()[i].token;
    json::object body = whole->asked;
    body["stop_token_ids"] = json::array{token.id};
    shown = subject.ask(body);
    if (auto finding = subject.missing(shown))
      return *finding;
    if (shown.text() == whole->text() && !shown.text().empty())
      return subject.say(Verdict::not_supported, "stop_token_ids has no effect", shown);
    if ((shown.text() != before && shown.text() != before + token.name) ||
        shown.first().finish_reason != "stop")
      return subject.say(Verdict::fail,
                         fmt::format("stopped at token {} ({}), the answer is {} and ends by "
                                     "\"{}\", not {}",
                                     token.id, excerpt(token.name), excerpt(shown.text()),
                                     shown.first().finish_reason, excerpt(before)),
                         shown);
  }
  return subject.say(Verdict::pass, fmt::format("{} ids in the midst of an answer", tokens.size()),
                     shown);
}

Finding check_usage(Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    for (const double temperature : {0.0, 1.0}) {
      const json::object body = subject.body(prompt, 37, {{"temperature", temperature}});
      bodies.push_back(subject.top() > 0 ? subject.scored(body, 1) : body);
    }
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  for (const Answer& answer : answers)
    if (const auto wrong = miscounted(answer))
      return subject.say(Verdict::fail, *wrong, answer);
  return subject.say(Verdict::pass, fmt::format("{} answers", answers.size()), answers.front());
}

Finding check_stream_ends(Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    bodies.push_back(subject.body(
        prompt, 23, {{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  for (const Answer& answer : answers) {
    if (answer.ends != 1)
      return subject.say(Verdict::fail,
                         fmt::format("a stream says {} times why it ends", answer.ends), answer);
    if (const auto wrong = miscounted(answer))
      return subject.say(Verdict::fail, *wrong, answer);
  }
  return subject.say(Verdict::pass, fmt::format("{} streams", answers.size()), answers.front());
}

/// Looks for an answer that ends by itself: one in which the end is the likeliest by far, if one of
/// the usual names is its token's, else by luck.
std::optional<Answer> ended_answer(Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* name : {"<|endoftext|>", "<|im_end|>", "</s>", "<eos>", "<|eot_id|>",
                           "<|end_of_text|>", "<end_of_turn>"})
    if (const auto ids = subject.ids_of(name); ids.size() == 1)
      bodies.push_back(
          subject.body(prompts()[0], 40, {{"logit_bias", {{std::to_string(ids[0]), 100}}}}));
  for (const char* prompt : prompts())
    bodies.push_back(subject.body(prompt, 200, {{"temperature", 1}, {"seed", 1}}));
  auto answers = subject.ask_all(bodies);
  for (Answer& answer : answers)
    if (answer.ok() && answer.first().finish_reason == "stop" && answer.completion_tokens)
      return std::move(answer);
  return std::nullopt;
}

Finding check_ignore_eos(Subject& subject) {
  const auto ended = ended_answer(subject);
  if (!ended)
    return {Verdict::not_decidable, "no answer came to an end by itself", ""};
  json::object body = ended->asked;
  body["max_tokens"] = *ended->completion_tokens + 9;
  body["ignore_eos"] = true;
  const Answer longer = subject.ask(body);
  if (auto finding = subject.missing(longer))
    return *finding;
  if (longer.first().finish_reason == "stop" &&
      longer.completion_tokens == ended->completion_tokens)
    return subject.say(Verdict::not_supported, "ignore_eos has no effect", longer);
  if (longer.first().finish_reason != "length" ||
      longer.completion_tokens != *ended->completion_tokens + 9)
    return subject.say(
        Verdict::fail,
        fmt::format("with ignore_eos, {} of {} tokens came, and the end was by \"{}\"",
                    longer.completion_tokens.value_or(0), *ended->completion_tokens + 9,
                    longer.first().finish_reason),
        longer);
  return subject.say(Verdict::pass, "an answer goes on behind its end of text", longer);
}

} // namespace

void add_ends(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"ends", "max-tokens",
        "an answer has as many tokens as it may, and is the beginning of a "
        "longer one",
        check_lengths},
       {"ends", "stop", "a stop string is found across tokens, and nothing of it is in the text",
        [](Subject& subject) { return check_stop_strings(subject, false); }},
       {"ends", "stop-streamed", "the same in a stream",
        [](Subject& subject) { return check_stop_strings(subject, true); }},
       {"ends", "stop-ids", "a stop_token_ids ends the answer wherever it comes", check_stop_ids},
       {"ends", "usage", "usage counts the tokens that came", check_usage},
       {"ends", "stream", "a stream says once why it ends, and counts", check_stream_ends},
       {"ends", "ignore-eos", "with ignore_eos an answer goes on behind its end of text",
        check_ignore_eos}});
}

} // namespace paceline::apps::conformance
