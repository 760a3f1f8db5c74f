// Seeds: the same gives the same, others give others, and no request's noise is another's.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int seeded_tokens = 24;

/// Makes a request for one prompt with several seeds; a request without where `seeds` has 0.
std::vector<json::object> seeded_bodies(const Subject& subject, const char* prompt, int first,
                                        int count) {
  std::vector<json::object> bodies;
  for (int i = 0; i < count; ++i)
    bodies.push_back(subject.body(
        prompt, seeded_tokens,
        {{"temperature", 1},
         {"seed", std::int64_t(subject.options().seed % 1'000'000) * 1000 + first + i}}));
  return bodies;
}

/// Judges answers that should be the same in pairs. Some servers' rows have other bits in company,
/// so that a few may part.
Finding judge_repeats(Subject& subject, const std::vector<Answer>& first,
                      const std::vector<Answer>& second, const char* how) {
  for (const auto* answers : {&first, &second})
    if (auto finding = subject.missing(*answers))
      return *finding;
  std::size_t same = 0;
  std::size_t parted = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].text() == second[i].text())
      ++same;
    else
      parted = i;
  const std::string text = fmt::format("{} of {} answers are the same {}", same, first.size(), how);
  if (same == first.size())
    return subject.say(Verdict::pass, text, first.front());
  const std::string parting =
      fmt::format("{}; one is {}, then {}", text, excerpt(first[parted].text(), 30),
                  excerpt(second[parted].text(), 30));
  return subject.say(same * 10 >= first.size() * 8 ? Verdict::not_decidable : Verdict::fail,
                     parting, first[parted]);
}

Finding check_seed_repeats(Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    for (json::object& body : seeded_bodies(subject, prompt, 0, 2))
      bodies.push_back(std::move(body));
  return judge_repeats(subject, subject.ask_all(bodies, 1), subject.ask_all(bodies, 1),
                       "with the same seed");
}

Finding check_neighbours(Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    for (json::object& body : seeded_bodies(subject, prompt, 10, 2))
      bodies.push_back(std::move(body));
  const auto alone = subject.ask_all(bodies, 1);
  // Neighbours with seeds of their own, without any, and with the very same seeds.
  auto company = bodies;
  for (const char* prompt : prompts()) {
    company.push_back(subject.body(prompt, seeded_tokens, {{"temperature", 1}}));
    company.push_back(seeded_bodies(subject, prompts()[0], 10, 1).front());
  }
  auto beside = subject.ask_all(company, int(company.size()));
  beside.resize(alone.size());
  return judge_repeats(subject, alone, beside, "beside others");
}

/// Judges answers of which no two should be the same, unless their text is probable.
Finding judge_variety(const Subject& subject, const std::vector<const Choice*>& choices,
                      const Answer& shown, const char* what) {
  std::map<std::string, std::size_t> texts;
  for (const Choice* choice : choices)
    ++texts[choice->text];
  const double pairs = double(choices.size() * (choices.size() - 1)) / 2;
  for (const Choice* choice : choices) {
    if (texts[choice->text] == 1 || choice->tokens.empty())
      continue;
    double logprob =
        std::log(pairs); // How probable it is that one of the pairs has this text twice.
    for (const Scored& token : choice->tokens)
      logprob += token.logprob.value_or(0);
    if (logprob < std::log(false_alarm))
      return subject.say(Verdict::fail,
                         fmt::format("{} of {} {} are {}, which is as improbable as e^{:.0f}",
                                     texts[choice->text], choices.size(), what,
                                     excerpt(choice->text, 30), logprob),
                         shown);
  }
  return subject.say(texts.size() > 1 ? Verdict::pass : Verdict::not_decidable,
                     fmt::format("{} texts of {} {}{}", texts.size(), choices.size(), what,
                                 texts.size() > 1 ? "" : ", which may be by chance"),
                     shown);
}

std::vector<const Choice*> firsts(const std::vector<Answer>& answers) {
  std::vector<const Choice*> choices;
  for (const Answer& answer : answers)
    choices.push_back(&answer.first());
  return choices;
}

Finding check_variety(Subject& subject, bool seeded) {
  auto bodies = seeded_bodies(subject, prompts()[1], 100, 8);
  for (json::object& body : bodies) {
    if (!seeded)
      body.erase("seed");
    if (subject.top() > 0)
      body = subject.scored(std::move(body), 1);
  }
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  return judge_variety(subject, firsts(answers), answers.front(),
                       seeded ? "answers with other seeds" : "answers without a seed");
}

Finding check_choices(Subject& subject) {
  constexpr int wanted = 4;
  json::object body = seeded_bodies(subject, prompts()[1], 200, 1).front();
  body["n"] = wanted;
  const Answer answer = subject.ask(subject.top() > 0 ? subject.scored(body, 1) : body);
  if (auto finding = subject.missing(answer))
    return *finding;
  if (int(answer.choices.size()) != wanted)
    return subject.say(Verdict::fail,
                       fmt::format("{} answers came of {}", answer.choices.size(), wanted), answer);
  std::vector<const Choice*> choices;
  for (const Choice& choice : answer.choices)
    choices.push_back(&choice);
  return judge_variety(subject, choices, answer, "answers to one request");
}

} // namespace

void add_seeds(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"seeds", "repeat", "a seed gives the same answer again", check_seed_repeats},
       {"seeds", "company", "a seed gives the same answer beside others", check_neighbours},
       {"seeds", "differ", "other seeds give answers of their own",
        [](Subject& subject) { return check_variety(subject, true); }},
       {"seeds", "unseeded", "without a seed, answers have noise of their own",
        [](Subject& subject) { return check_variety(subject, false); }},
       {"seeds", "choices", "the n answers to one request have noise of their own",
        check_choices}});
}

} // namespace paceline::apps::conformance
