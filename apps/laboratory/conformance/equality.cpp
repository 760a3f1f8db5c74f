// Greedy answers to the same question, asked in ways that must not change them.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int equality_tokens = 64;

std::vector<json::object> greedy_bodies(const Subject& subject, int tokens,
                                        const json::object& fields = {}) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    bodies.push_back(subject.body(prompt, tokens, fields));
  return bodies;
}

/// Asks each alone, one after the other.
std::vector<Answer> ask_alone(Subject& subject, const std::vector<json::object>& bodies) {
  return subject.ask_all(bodies, 1);
}

Finding check_repeats(Subject& subject) {
  const auto bodies = greedy_bodies(subject, equality_tokens);
  return same_answers(subject, ask_alone(subject, bodies), ask_alone(subject, bodies),
                      "asked again");
}

Finding check_streamed(Subject& subject) {
  return same_answers(
      subject, ask_alone(subject, greedy_bodies(subject, equality_tokens)),
      ask_alone(subject, greedy_bodies(subject, equality_tokens, {{"stream", true}})), "streamed");
}

Finding check_speculation(Subject& subject) {
  if (!subject.has_plain())
    return no_twin();
  const auto bodies = greedy_bodies(subject, 2 * equality_tokens);
  return same_answers(subject, subject.ask_all_plain(bodies), subject.ask_all(bodies),
                      "with speculation");
}

Finding check_company(Subject& subject) {
  auto bodies = greedy_bodies(subject, equality_tokens);
  const auto alone = ask_alone(subject, bodies);
  // The company begins at other times, is of other lengths, and some of it is drawn by chance.
  for (int i = 0; i < 3; ++i)
    for (const char* prompt : prompts())
      bodies.push_back(subject.body(std::string(prompt) + std::string(std::size_t(i), ' ') + "1",
                                    20 + 30 * i, {{"temperature", i}}));
  auto beside = subject.ask_all(bodies, int(bodies.size()));
  beside.resize(alone.size());
  return same_answers(subject, alone, beside, "beside others");
}

/// Makes prompts that share so many words, more or less tokens, with one another: around the sizes
/// that pages of caches and passes over prompts have.
std::vector<json::object> shared_prefixes(const Subject& subject) {
  std::string text = fmt::format("Notes of day {}:", subject.options().seed);
  std::vector<json::object> bodies;
  for (int word = 1; word <= 48; ++word) {
    text += fmt::format(" x{}", word % 10);
    if (word >= 12 && (word % 16 <= 1 || word % 16 == 15 || word % 5 == 0)) {
      bodies.push_back(subject.body(text + " =", 32));
      bodies.push_back(subject.body(text + ".\n", 32));
    }
  }
  return bodies;
}

Finding check_prefixes(Subject& subject) {
  const auto bodies = shared_prefixes(subject);
  const auto first = ask_alone(subject, bodies);
  const Finding again =
      same_answers(subject, first, subject.ask_all(bodies), "asked again, of shared prefixes");
  if (again.verdict != Verdict::pass || !subject.has_plain())
    return again;
  return same_answers(subject, subject.ask_all_plain(bodies), first,
                      "with shared prefixes and speculation");
}

/// Joins prompts to a text of so many of them.
std::string many_prompts(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format(" {}", prompts()[std::size_t(i) % prompts().size()]);
  return text;
}

/// Returns a prompt that leaves about this much room in the context, by the server's own count.
std::optional<std::string> filling_prompt(Subject& subject, int context, int room) {
  const auto tokens_of = [&](int count) {
    const Answer answer = subject.ask(subject.body(many_prompts(count), 1));
    return answer.ok() ? answer.prompt_tokens : std::nullopt;
  };
  const int all = int(prompts().size());
  const auto once = tokens_of(all);
  const auto twice = tokens_of(2 * all);
  if (!once || !twice || *twice <= *once)
    return std::nullopt;
  int count = all + int(double(context - room - *once) * all / (*twice - *once));
  for (int tries = 0; tries < 2 * all; ++tries) {
    const auto tokens = tokens_of(count);
    if (!tokens || context - *tokens < room / 4)
      --count;
    else if (context - *tokens > 2 * room)
      ++count;
    else
      return many_prompts(count);
  }
  return std::nullopt;
}

Finding check_context(Subject& subject) {
  constexpr int most = 4096;
  constexpr int room = 40;
  const auto context = subject.context();
  if (!context || *context > most)
    return {Verdict::not_decidable,
            context ? fmt::format("the context of {} tokens is long to fill: start the server with "
                                  "at most {}",
                                  *context, most)
                    : "/v1/models does not say how long the context is",
            ""};
  const auto prompt = filling_prompt(subject, *context, room);
  if (!prompt)
    return {Verdict::not_decidable, "usage does not count prompts", ""};
  // Longer than what is left: some servers cut the answer there, others refuse to begin.
  json::object body = subject.body(*prompt, 4 * room, {{"ignore_eos", true}});
  Answer whole = subject.ask(body);
  if (const auto finding = subject.missing(whole))
    return finding->verdict == Verdict::not_supported
               ? subject.say(Verdict::pass, "refused: " + whole.error, whole)
               : *finding;
  const int all = whole.prompt_tokens.value_or(0) + whole.completion_tokens.value_or(0);
  if (whole.first().finish_reason != "length" || all > *context + 1)
    return subject.say(Verdict::fail,
                       fmt::format("of a context of {}, {} tokens were used, and the answer ended "
                                   "by \"{}\"",
                                   *context, all, whole.first().finish_reason),
                       whole);
  if (!subject.has_plain())
    return same_answers(subject, {whole}, {subject.ask(body)}, "asked again at the context's end");
  return same_answers(subject, {subject.ask_plain(body)}, {whole}, "at the context's end");
}

} // namespace

void add_equality(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"equality", "repeat", "a greedy answer is the same when it is asked for again",
        check_repeats},
       {"equality", "streamed", "a streamed answer is the whole one", check_streamed},
       {"equality", "speculation", "a greedy answer is the same with speculation and without",
        check_speculation},
       {"equality", "company", "an answer is the same beside others as alone", check_company},
       {"equality", "prefixes", "what is cached of a prompt does not change the answer",
        check_prefixes},
       {"equality", "context", "an answer is right up to the end of the context", check_context}});
}

} // namespace paceline::apps::conformance
