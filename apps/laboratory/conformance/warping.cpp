// Fields that change which tokens may come, against formulas over the reported log-probabilities.
//
// A field that OpenAI documents must have its effect; one that other servers added may be missing.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int warped_tokens = 40;
/// A choice between tokens so near to one another, in nats, is left to rounding.
constexpr double undecided = 0.02;

/// A greedy answer, and tokens of it that can be named by id; or why there are none.
struct Basis {
  Answer answer;
  std::vector<KnownToken> tokens;
  std::optional<Finding> missing;
};

Basis basis_of(Subject& subject, std::size_t tokens) {
  if (subject.top() == 0)
    return {{}, {}, Finding{Verdict::not_supported, "the server reports no likeliest tokens", ""}};
  auto answer = subject.long_answer(warped_tokens);
  if (!answer)
    return {{}, {}, Finding{Verdict::not_decidable, "no greedy answer is long enough", ""}};
  Basis basis{std::move(*answer), {}, {}};
  basis.tokens = subject.known_tokens(basis.answer, tokens);
  if (basis.tokens.empty())
    basis.missing =
        subject.say(Verdict::not_decidable,
                    "ids of tokens are not told by /tokenize and /detokenize", basis.answer);
  return basis;
}

json::object with(json::object body, const char* name, json::value value) {
  body[name] = std::move(value);
  return body;
}

/// Returns the place of the first of an answer's tokens that `allowed` refuses.
template <class Allowed>
std::optional<std::size_t> first_outside(const Answer& answer, const Allowed& allowed) {
  const auto& tokens = answer.tokens();
  const auto found =
      std::ranges::find_if_not(tokens, [&](const Scored& token) { return allowed(token.token); });
  return found == tokens.end() ? std::nullopt : std::optional(std::size_t(found - tokens.begin()));
}

Finding at_place(const Subject& subject, const Answer& answer, std::size_t place,
                 const std::string& what) {
  return subject.say(
      Verdict::fail,
      fmt::format("{}, and token {} is {}", what, place + 1, excerpt(answer.tokens()[place].token)),
      answer);
}

Finding check_ban(Subject& subject) {
  const Basis basis = basis_of(subject, 6);
  if (basis.missing)
    return *basis.missing;
  Answer shown;
  for (const KnownToken& token : basis.tokens) {
    shown = subject.ask(
        with(basis.answer.asked, "logit_bias", json::object{{std::to_string(token.id), -100}}));
    if (auto finding = subject.missing(shown))
      return *finding;
    const std::string what = fmt::format("{} has a logit_bias of -100", excerpt(token.name));
    if (const auto place =
            first_outside(shown, [&](const std::string& name) { return name != token.name; }))
      return at_place(subject, shown, *place, what);
    // What comes instead is the likeliest of the others.
    const auto& place = basis.answer.tokens()[token.place];
    const auto& instead = shown.tokens();
    if (instead.size() <= token.place || place.top.size() < 2)
      continue;
    const auto next = std::ranges::find_if(
        place.top, [&](const auto& listed) { return listed.first != token.name; });
    const auto chosen = place.listed(instead[token.place].token);
    if (next == place.top.end())
      continue; // Tokens of other ids have its name.
    if (!chosen || *chosen < next->second - undecided)
      return at_place(subject, shown, token.place,
                      what + fmt::format(", {} is the likeliest other", excerpt(next->first)));
  }
  return subject.say(Verdict::pass, fmt::format("{} tokens, banned in turn", basis.tokens.size()),
                     shown);
}

Finding check_force(Subject& subject) {
  const Basis basis = basis_of(subject, 4);
  if (basis.missing)
    return *basis.missing;
  Answer shown;
  for (const KnownToken& token : basis.tokens) {
    shown = subject.ask(
        with(basis.answer.asked, "logit_bias", json::object{{std::to_string(token.id), 100}}));
    if (auto finding = subject.missing(shown))
      return *finding;
    if (const auto place =
            first_outside(shown, [&](const std::string& name) { return name == token.name; }))
      return at_place(subject, shown, *place,
                      fmt::format("{} has a logit_bias of 100", excerpt(token.name)));
  }
  return subject.say(Verdict::pass, fmt::format("{} tokens, forced in turn", basis.tokens.size()),
                     shown);
}

Finding check_allowed(Subject& subject) {
  const Basis basis = basis_of(subject, 3);
  if (basis.missing)
    return *basis.missing;
  json::array ids;
  std::set<std::string> names;
  for (const KnownToken& token : basis.tokens) {
    ids.push_back(token.id);
    names.insert(token.name);
  }
  Answer shown;
  for (const double temperature : {0.0, 1.0}) {
    shown = subject.ask(
        with(with(basis.answer.asked, "allowed_token_ids", ids), "temperature", temperature));
    if (auto finding = subject.missing(shown))
      return *finding;
    if (temperature == 0 && shown.text() == basis.answer.text())
      return subject.say(Verdict::not_supported, "allowed_token_ids has no effect", shown);
    if (const auto place =
            first_outside(shown, [&](const std::string& name) { return names.contains(name); }))
      return at_place(subject, shown, *place, fmt::format("{} tokens are allowed", names.size()));
  }
  return subject.say(Verdict::pass,
                     fmt::format("{} tokens are allowed, no other came", names.size()), shown);
}

Finding check_bad_words(Subject& subject) {
  const Basis basis = basis_of(subject, 12);
  if (basis.missing)
    return *basis.missing;
  for (const KnownToken& token : basis.tokens) {
    const std::string word =
        token.name.substr(std::min(token.name.find_first_not_of(' '), token.name.size()));
    const bool letters = word.size() > 1 && std::ranges::all_of(word, [](char c) {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                         });
    if (!letters)
      continue;
    const Answer shown = subject.ask(with(basis.answer.asked, "bad_words", json::array{word}));
    if (auto finding = subject.missing(shown))
      return *finding;
    if (shown.text() == basis.answer.text())
      return subject.say(Verdict::not_supported, "bad_words has no effect", shown);
    if (const auto place = first_outside(
            shown, [&](const std::string& name) { return name != word && name != " " + word; }))
      return at_place(subject, shown, *place, fmt::format("{} is a bad word", excerpt(word)));
    return subject.say(Verdict::pass, fmt::format("{} did not come", excerpt(word)), shown);
  }
  return subject.say(Verdict::not_decidable, "the answer has no token that is a word",
                     basis.answer);
}

Finding check_min_tokens(Subject& subject) {
  constexpr int least = 12;
  const Basis basis = basis_of(subject, 1);
  if (basis.missing)
    return *basis.missing;
  json::object body =
      with(basis.answer.asked, "stop_token_ids", json::array{basis.tokens.front().id});
  const Answer early = subject.ask(body);
  if (auto finding = subject.missing(early))
    return *finding;
  if (early.text() == basis.answer.text())
    return subject.say(Verdict::not_decidable, "stop_token_ids has no effect", early);
  const Answer late = subject.ask(with(body, "min_tokens", least));
  if (auto finding = subject.missing(late))
    return *finding;
  if (late.text() == early.text())
    return subject.say(Verdict::not_supported, "min_tokens has no effect", late);
  const int tokens = late.completion_tokens.value_or(int(late.tokens().size()));
  if (tokens < least)
    return subject.say(Verdict::fail,
                       fmt::format("with min_tokens {}, the answer ends after {}", least, tokens),
                       late);
  return subject.say(Verdict::pass, fmt::format("the answer ends after {} tokens", tokens), late);
}

// --- penalties

/// How often each token was seen, by name.
using Seen = std::map<std::string, int>;

struct Penalties {
  json::object fields;
  double presence = 0;
  double frequency = 0;
  bool repetition = false;
};

/// Returns what is wrong with a greedy choice under additive penalties; none: nothing, or the list
/// does not tell.
std::optional<std::string> wrong_sum(const Penalties& penalties, const Seen& seen,
                                     const Scored& token) {
  const auto penalized = [&](const std::string& name, double logprob) {
    const auto found = seen.find(name);
    return found == seen.end() ? logprob
                               : logprob - penalties.presence - penalties.frequency * found->second;
  };
  const std::pair<std::string, double>* best = nullptr;
  double most = -INFINITY;
  for (const auto& listed : token.top)
    if (const double left = penalized(listed.first, listed.second); left > most) {
      most = left;
      best = &listed;
    }
  if (!best || most < token.top.back().second + undecided)
    return std::nullopt; // A token behind the list might be likelier.
  const double chosen = penalized(token.token, token.logprob.value_or(0));
  if (chosen >= most - undecided)
    return std::nullopt;
  return fmt::format("{} was chosen ({:.3f} after penalties), {} has {:.3f}", excerpt(token.token),
                     chosen, excerpt(best->first), most);
}

/// The same under a repetition penalty. It divides or multiplies logits, which log-probabilities do
/// not tell; but it keeps the order among tokens that were seen and among those that were not, and
/// never prefers one that was seen.
std::optional<std::string> wrong_ratio(const Seen& seen, const Scored& token) {
  const bool chosen_seen = seen.contains(token.token);
  for (const auto& [name, logprob] : token.top) {
    if (logprob < token.logprob.value_or(0) + undecided)
      break;
    if (!seen.contains(name) || chosen_seen)
      return fmt::format("{} was chosen, {} is {:.3f} nats likelier, and was seen {} before",
                         excerpt(token.token), excerpt(name), logprob - token.logprob.value_or(0),
                         seen.contains(name) ? "as well" : "not");
  }
  return std::nullopt;
}

/// Returns what is wrong with an answer, if the penalties count what `seen` holds and its own
/// tokens.
std::optional<std::string> wrong_answer(const Penalties& penalties, Seen seen,
                                        const Answer& answer) {
  for (std::size_t i = 0; i < answer.tokens().size(); ++i) {
    const Scored& token = answer.tokens()[i];
    const auto wrong =
        penalties.repetition ? wrong_ratio(seen, token) : wrong_sum(penalties, seen, token);
    if (wrong)
      return fmt::format("token {}: {}", i + 1, *wrong);
    ++seen[token.token];
  }
  return std::nullopt;
}

/// Returns the prompt's tokens, by echo; empty: the server does not tell.
Seen prompt_tokens(Subject& subject, const char* prompt) {
  Seen seen;
  if (subject.chat())
    return seen;
  const Answer echoed = subject.ask(subject.scored(subject.body(prompt, 1, {{"echo", true}}), 1));
  if (const auto count = echoed.ok() ? echoed.first().echoed(prompt) : std::nullopt)
    for (std::size_t i = 0; i < *count; ++i)
      ++seen[echoed.tokens()[i].token];
  return seen;
}

bool shows_warped(const Answer& answer) {
  return std::ranges::all_of(answer.tokens(), [](const Scored& token) {
    return !token.top.empty() && token.top.front().first == token.token;
  });
}

Finding check_penalties(Subject& subject, const Penalties& penalties) {
  if (subject.top() < 5)
    return {Verdict::not_supported, "the server reports no likeliest tokens", ""};
  std::size_t changed = 0;
  Answer shown;
  std::optional<Finding> unclear;
  for (const char* prompt : prompts()) {
    const Answer bare = subject.ask(subject.scored(subject.body(prompt, warped_tokens)));
    shown = subject.ask(subject.scored(subject.body(prompt, warped_tokens, penalties.fields)));
    for (const Answer* answer : {&bare, &std::as_const(shown)})
      if (auto finding = subject.missing(*answer))
        return *finding;
    changed += bare.text() != shown.text();
    const auto wrong = wrong_answer(penalties, {}, shown);
    if (!wrong)
      continue;
    // Some servers count the prompt's tokens, too; some report what penalties have left.
    const Seen before = prompt_tokens(subject, prompt);
    if (!before.empty() && !wrong_answer(penalties, before, shown))
      continue;
    if (bare.text() == shown.text())
      continue; // Whether the field has any effect shows in other answers.
    if (shows_warped(shown))
      unclear = subject.say(Verdict::not_decidable,
                            "the log-probabilities are of what penalties have left", shown);
    else if (before.empty())
      unclear = subject.say(Verdict::not_decidable,
                            *wrong + "; the prompt may count, and nobody tells its tokens", shown);
    else
      return subject.say(Verdict::fail, *wrong, shown);
  }
  if (changed == 0)
    return subject.say(penalties.repetition ? Verdict::not_supported : Verdict::fail,
                       "the field has no effect", shown);
  if (unclear)
    return *unclear;
  return subject.say(Verdict::pass,
                     fmt::format("{} answers, {} of which it changes", prompts().size(), changed),
                     shown);
}

Finding check_warped_twin(Subject& subject) {
  if (!subject.has_plain())
    return no_twin();
  const std::vector<json::object> settings{
      {{"presence_penalty", 1.5}, {"frequency_penalty", 0.5}},
      {{"repetition_penalty", 1.3}},
      {{"logit_bias", {{"10", -100}, {"11", 3}, {"12", -3}}}},
      {{"stop", json::array{"\n\n", ")"}}},
  };
  std::vector<json::object> bodies;
  for (const json::object& fields : settings)
    for (const char* prompt : prompts())
      bodies.push_back(subject.body(prompt, 2 * warped_tokens, fields));
  return same_answers(subject, subject.ask_all_plain(bodies), subject.ask_all(bodies),
                      "with speculation");
}

Check penalty_check(const char* name, const char* promise, Penalties penalties) {
  return {"warping", name, promise, [penalties = std::move(penalties)](Subject& subject) {
            return check_penalties(subject, penalties);
          }};
}

} // namespace

void add_warping(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"warping", "logit-bias-ban",
        "a token with a logit_bias of -100 does not come, at any place", check_ban},
       {"warping", "logit-bias-force", "a token with a logit_bias of 100 comes at every place",
        check_force},
       penalty_check("presence-penalty", "presence_penalty counts each token that came once",
                     {.fields = {{"presence_penalty", 2}}, .presence = 2}),
       penalty_check("frequency-penalty", "frequency_penalty counts tokens as often as they came",
                     {.fields = {{"frequency_penalty", 0.7}}, .frequency = 0.7}),
       penalty_check("repetition-penalty",
                     "repetition_penalty lowers the tokens that were seen, and only those",
                     {.fields = {{"repetition_penalty", 1.8}}, .repetition = true}),
       {"warping", "allowed-tokens", "only allowed_token_ids come", check_allowed},
       {"warping", "bad-words", "bad_words do not come", check_bad_words},
       {"warping", "min-tokens", "no stop id ends an answer before min_tokens", check_min_tokens},
       {"warping", "speculation",
        "greedy answers under all of these are the same with speculation and without",
        check_warped_twin}});
}

} // namespace paceline::apps::conformance
