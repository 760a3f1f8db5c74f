// Tokens that are drawn, against the log-probabilities that the server reports.
#include "apps/laboratory/conformance/draws.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

using Clock = std::chrono::steady_clock;

constexpr int draw_checks = 8;         ///< Checks of this group, which share the time.
constexpr double wanted_power = 0.99;  ///< Draws that give more are not waited for.
constexpr double decisive_power = 0.5; ///< Less is no answer.
constexpr int answer_tokens = 16;      ///< Longer answers fall into loops, where little is drawn.
constexpr int pilot_rounds = 1;

struct Setting {
  json::object fields;
  /// The distribution by the raw list.
  std::function<std::optional<Expected>(const CleanList&)> warp;
  bool seeded = false;
};

/// The draws of a setting, and what they say.
struct Count {
  Transforms warped;
  Transforms neutral; ///< As if the setting's fields had no effect.
  Answer shown;       ///< An answer that shows what is wrong, or any.
  std::string fault;
};

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// Makes a round of requests: each prompt twice.
std::vector<json::object> round_of(const Subject& subject, const Setting& setting, int number) {
  std::vector<json::object> bodies;
  for (std::size_t i = 0; i < 2 * prompts().size(); ++i) {
    const char* prompt = prompts()[i % prompts().size()];
    json::object body = subject.scored(subject.body(prompt, answer_tokens, setting.fields));
    if (setting.seeded)
      body["seed"] = std::int64_t(subject.options().seed % 1'000'000) * 1'000'000 +
                     std::int64_t(number) * 1000 + std::int64_t(i);
    bodies.push_back(std::move(body));
  }
  return bodies;
}

void count_answer(const Subject& subject, const Setting& setting, Reported reported,
                  const Answer& answer, Count& count) {
  for (const Scored& token : answer.tokens()) {
    const CleanList list = clean_list(token, subject.top());
    const auto expected = reported == Reported::raw ? setting.warp(list) : at_temperature(list, 1);
    if (!expected)
      continue;
    Expected conditional = *expected;
    if (reported == Reported::processed)
      conditional.rest.reset(); // Servers differ in what they divide by.
    if (!count.warped.add(conditional, token.token) && count.fault.empty()) {
      count.fault = fmt::format("{} was drawn, which was impossible", excerpt(token.token));
      count.shown = answer;
    }
    if (const auto neutral = at_temperature(list, 1))
      count.neutral.add(*neutral, token.token);
  }
}

/// Finds out whether the reported lists are of the distribution before the setting's warper or
/// behind it: the first position does not depend on what is drawn.
Reported what_is_reported(Subject& subject, const Setting& setting) {
  for (const char* prompt : prompts()) {
    const Answer bare = subject.ask(subject.scored(subject.body(prompt, 1, {{"temperature", 1}})));
    const Answer warped = subject.ask(subject.scored(subject.body(prompt, 1, setting.fields)));
    if (!bare.ok() || !warped.ok() || bare.tokens().empty() || warped.tokens().empty())
      continue;
    const CleanList own = clean_list(bare.tokens()[0], subject.top());
    for (const auto& [name, logprob] : own.top) {
      const auto listed = warped.tokens()[0].listed(name);
      if (!listed || std::abs(*listed - logprob) > 0.1)
        return Reported::processed;
    }
  }
  return Reported::raw;
}

/// Draws rounds until the time is over.
std::optional<Finding> draw_rounds(Subject& subject, const Setting& setting, Reported reported,
                                   int first, int rounds, double seconds, Count& count) {
  const auto began = Clock::now();
  for (int i = 0; i < rounds && (i == 0 || seconds_since(began) < seconds); ++i) {
    const auto answers = subject.ask_all(round_of(subject, setting, first + i));
    if (auto finding = subject.missing(answers))
      return finding;
    for (const Answer& answer : answers) {
      if (count.shown.choices.empty())
        count.shown = answer;
      count_answer(subject, setting, reported, answer, count);
    }
  }
  return std::nullopt;
}

Finding judge(const Subject& subject, const Transforms& drawn, const Answer& shown) {
  if (drawn.wrong())
    return subject.say(Verdict::fail, drawn.text(), shown);
  if (drawn.power() < decisive_power)
    return subject.say(Verdict::not_decidable, drawn.text() + ": give more --seconds", shown);
  return subject.say(Verdict::pass, drawn.text(), shown);
}

Finding judge_draws(const Subject& subject, const Setting& setting, const Count& count) {
  const bool warps = setting.fields.size() > 1; // Others than the temperature.
  const bool wrong = count.warped.wrong();
  if (wrong && warps && count.neutral.p_value() > 1e-3)
    return subject.say(Verdict::not_supported, "the field has no effect", count.shown);
  if (wrong && !count.fault.empty())
    return subject.say(Verdict::fail, count.fault, count.shown);
  return judge(subject, count.warped, count.shown);
}

Finding check_draws(Subject& subject, const Setting& setting) {
  if (subject.top() < 5)
    return {Verdict::not_supported, "the server reports no likeliest tokens", ""};
  const double seconds = subject.options().seconds / draw_checks;
  const auto began = Clock::now();
  Count pilot{.warped = Transforms(1), .neutral = Transforms(2), .shown = {}, .fault = {}};
  if (auto finding = draw_rounds(subject, setting, Reported::raw, 0, pilot_rounds, seconds, pilot))
    return *finding;
  const double each = seconds_since(began) / pilot_rounds;
  const Reported reported = what_is_reported(subject, setting);
  // How many are drawn is settled before they are: a count that looked at them would not be fair.
  const double draws_each = std::max(1.0, double(pilot.warped.draws()) / pilot_rounds);
  const double wanted = std::min(pilot.warped.draws_for(wanted_power) / draws_each, seconds / each);
  const std::uint64_t seed = subject.options().seed;
  Count count{
      .warped = Transforms(seed), .neutral = Transforms(seed + 1), .shown = {}, .fault = {}};
  if (auto finding = draw_rounds(subject, setting, reported, pilot_rounds,
                                 int(std::clamp(wanted, 1.0, 1e5)), seconds, count))
    return *finding;
  return judge_draws(subject, setting, count);
}

/// Returns the prompt behind which the likeliest token is the least likely, and its answer.
std::optional<Answer> open_end(Subject& subject) {
  std::optional<Answer> best;
  for (const char* prompt : prompts()) {
    Answer answer = subject.ask(subject.scored(subject.body(prompt, 1)));
    if (answer.ok() && !answer.tokens().empty() && !answer.tokens()[0].top.empty() &&
        (!best || answer.tokens()[0].top[0].second < best->tokens()[0].top[0].second))
      best = std::move(answer);
  }
  return best;
}

Finding check_first_position(Subject& subject) {
  const auto reference = subject.top() < 5 ? std::nullopt : open_end(subject);
  if (!reference)
    return {Verdict::not_supported, "the server reports no likeliest tokens", ""};
  const auto expected = at_temperature(clean_list(reference->tokens()[0], subject.top()), 1);
  if (!expected || !expected->rest)
    return subject.say(Verdict::not_decidable, "the list does not tell what its rest has",
                       *reference);
  json::object body = reference->asked;
  body["temperature"] = 1;
  body = subject.scored(body, 1); // Few are reported, as where nobody asks for them.
  Answer shown = *reference;
  shown.asked = body;
  Transforms drawn(subject.options().seed);
  const auto began = Clock::now();
  while (drawn.power() < wanted_power && // It depends on how many are drawn, and not on which.
         seconds_since(began) < subject.options().seconds / draw_checks) {
    const auto answers = subject.ask_all(std::vector<json::object>(64, body));
    if (auto finding = subject.missing(answers))
      return *finding;
    for (const Answer& answer : answers)
      if (!answer.tokens().empty())
        drawn.add(*expected, answer.tokens()[0].token);
  }
  return judge(subject, drawn, shown);
}

void add_setting(Checks& checks, const char* name, const char* promise, Setting setting) {
  checks.push_back(
      {"distribution", name, promise,
       [setting = std::move(setting)](Subject& subject) { return check_draws(subject, setting); }});
}

Setting tempered(double temperature) {
  return {{{"temperature", temperature}},
          [temperature](const CleanList& list) { return at_temperature(list, temperature); }};
}

} // namespace

void add_distribution(Checks& checks) {
  checks.push_back({"distribution", "first-token",
                    "first tokens have the distribution that is reported", check_first_position});
  add_setting(checks, "temperature-0.7", "tokens have the reported distribution at temperature 0.7",
              tempered(0.7));
  add_setting(checks, "temperature-1", "tokens have the reported distribution at temperature 1",
              tempered(1));
  add_setting(checks, "temperature-1.3", "tokens have the reported distribution at temperature 1.3",
              tempered(1.3));
  add_setting(checks, "top-p", "with top_p 0.6, tokens are drawn from those that have it together",
              {{{"temperature", 1}, {"top_p", 0.6}},
               [](const CleanList& list) { return at_top_p(list, 0.6); }});
  add_setting(checks, "top-k", "with top_k 4, tokens are drawn from the four likeliest",
              {{{"temperature", 1}, {"top_k", 4}},
               [](const CleanList& list) { return at_top_k(list, 4); }});
  add_setting(checks, "min-p",
              "with min_p 0.2, tokens are drawn from those at least 0.2 times as likely",
              {{{"temperature", 1}, {"min_p", 0.2}},
               [](const CleanList& list) { return at_min_p(list, 0.2); }});
  Setting seeded = tempered(1);
  seeded.seeded = true;
  add_setting(checks, "seeded", "over many seeds, tokens have the reported distribution",
              std::move(seeded));
}

} // namespace paceline::apps::conformance
