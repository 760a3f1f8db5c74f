// Log-probabilities: that they can be, that they belong to the tokens, and that they are the same
// however they are asked for.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int scored_tokens = 48;
/// Sums and orders may be off by rounding.
constexpr double slack = 1e-3;
/// The same place computed another way (alone, in a batch, as a prompt) may be off by so much, in
/// nats: on average, and at most.
constexpr double mean_off = 0.05;
constexpr double most_off = 0.5;

Finding no_scores() {
  return {Verdict::not_supported, "the server reports no likeliest tokens", ""};
}

/// Returns what is impossible about a token's log-probabilities.
std::optional<std::string> impossible(const Scored& token, bool greedy, int top) {
  if (!token.logprob)
    return fmt::format("{} has no log-probability", excerpt(token.token));
  if (*token.logprob > slack || std::isnan(*token.logprob))
    return fmt::format("{} has the log-probability {}", excerpt(token.token), *token.logprob);
  if (token.top.empty())
    return fmt::format("{} has no likeliest tokens beside it", excerpt(token.token));
  double sum = 0;
  for (const auto& [name, logprob] : token.top)
    sum += std::exp(logprob);
  if (sum > 1 + slack)
    return fmt::format("the {} likeliest tokens at {} have the probability {:.4f} together",
                       token.top.size(), excerpt(token.token), sum);
  const auto listed = token.listed(token.token);
  if (listed && std::abs(*listed - *token.logprob) > slack)
    return fmt::format("{} has {:.4f}, and {:.4f} among the likeliest", excerpt(token.token),
                       *token.logprob, *listed);
  if (!listed && int(token.top.size()) >= top && *token.logprob > token.top.back().second + slack)
    return fmt::format("{} has {:.4f}, and is not among the {} likeliest, the last of which has "
                       "{:.4f}",
                       excerpt(token.token), *token.logprob, token.top.size(),
                       token.top.back().second);
  if (greedy && *token.logprob < token.top.front().second - slack)
    return fmt::format("{} ({:.4f}) was chosen greedily where {} ({:.4f}) is likelier",
                       excerpt(token.token), *token.logprob, excerpt(token.top.front().first),
                       token.top.front().second);
  return std::nullopt;
}

Finding check_possible(Subject& subject) {
  if (subject.top() == 0)
    return no_scores();
  std::vector<json::object> bodies;
  for (const double temperature : {0.0, 1.0})
    for (const char* prompt : prompts())
      bodies.push_back(
          subject.scored(subject.body(prompt, scored_tokens, {{"temperature", temperature}})));
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  std::size_t tokens = 0;
  std::size_t certain = 0;
  for (std::size_t i = 0; i < answers.size(); ++i)
    for (const Scored& token : answers[i].tokens()) {
      if (const auto wrong = impossible(token, i < prompts().size(), subject.top()))
        return subject.say(Verdict::fail, *wrong, answers[i]);
      ++tokens;
      certain += *token.logprob == 0;
    }
  if (tokens == 0 || certain == tokens)
    return subject.say(Verdict::fail,
                       fmt::format("all {} tokens have the log-probability 0", tokens),
                       answers.front());
  return subject.say(Verdict::pass, fmt::format("{} tokens", tokens), answers.front());
}

/// Checks that the tokens of answers make up their texts.
Finding check_text(Subject& subject) {
  if (subject.top() == 0)
    return no_scores();
  std::vector<json::object> bodies;
  for (const bool streamed : {false, true})
    for (const char* prompt : prompts())
      bodies.push_back(
          subject.scored(subject.body(prompt, scored_tokens, {{"stream", streamed}}), 1));
  const auto answers = subject.ask_all(bodies);
  if (auto finding = subject.missing(answers))
    return *finding;
  for (const Answer& answer : answers) {
    std::string text;
    std::string bytes;
    bool named = true; // A token that is no whole characters has a name that is not its text.
    for (const Scored& token : answer.tokens()) {
      text += token.token;
      bytes += token.bytes.value_or(token.token);
      named &= token.token.find("\xEF\xBF\xBD") == std::string::npos &&
               !token.token.starts_with("bytes:");
    }
    // The token that ends the text is mostly not shown in it.
    const auto makes = [&](const std::string& all) {
      return all == answer.text() ||
             (answer.first().finish_reason == "stop" && all.starts_with(answer.text()));
    };
    if (!makes(bytes) && !(named && makes(text)) && named)
      return subject.say(
          Verdict::fail,
          fmt::format("the tokens make {}, the text is {}", excerpt(text), excerpt(answer.text())),
          answer);
  }
  return subject.say(Verdict::pass, fmt::format("{} texts", answers.size()), answers.front());
}

/// Returns the byte at which each character of a text begins, and the text's end.
std::vector<std::size_t> characters(std::string_view text) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0u) != 0x80u)
      all.push_back(i);
  all.push_back(text.size());
  return all;
}

/// Checks offsets, which count characters from the answer's beginning, or from the prompt's.
Finding check_offsets(Subject& subject) {
  if (subject.top() == 0 || subject.chat())
    return {Verdict::not_supported, "only completions have text_offset", ""};
  std::size_t checked = 0;
  Answer shown;
  for (const char* prompt : prompts()) {
    shown = subject.ask(subject.scored(subject.body(prompt, scored_tokens), 1));
    if (auto finding = subject.missing(shown))
      return *finding;
    const auto places = characters(shown.text());
    for (const std::int64_t before :
         {std::int64_t(0), std::int64_t(characters(prompt).size()) - 1}) {
      const auto& tokens = shown.tokens();
      if (tokens.empty() || tokens[0].offset != before)
        continue;
      for (const Scored& token : tokens) {
        const auto at = std::size_t(token.offset.value_or(0) - before);
        const bool whole = token.token.find("\xEF\xBF\xBD") == std::string::npos &&
                           !token.token.starts_with("bytes:");
        if (whole &&
            (at >= places.size() ||
             !std::string_view(shown.text()).substr(places[at]).starts_with(token.token)) &&
            &token != &tokens.back())
          return subject.say(
              Verdict::fail,
              fmt::format("{} is not at its text_offset {}", excerpt(token.token), *token.offset),
              shown);
        ++checked;
      }
      break;
    }
  }
  if (checked == 0)
    return subject.say(shown.tokens().empty() || !shown.tokens()[0].offset ? Verdict::not_supported
                                                                           : Verdict::fail,
                       "the first token's text_offset is neither 0 nor the prompt's length", shown);
  return subject.say(Verdict::pass, fmt::format("{} offsets", checked), shown);
}

/// How two series of log-probabilities of the same tokens differ.
struct Difference {
  double sum = 0;
  double most = 0;
  int count = 0;
  std::string where;

  void add(const Scored& one, const Scored& other) {
    if (!one.logprob || !other.logprob)
      return;
    const double off = std::abs(*one.logprob - *other.logprob);
    if (off > most)
      where =
          fmt::format("{} has {:.4f} and {:.4f}", excerpt(one.token), *one.logprob, *other.logprob);
    most = std::max(most, off);
    sum += off;
    ++count;
  }
  bool small() const { return count == 0 || (sum / count <= mean_off && most <= most_off); }
  std::string text() const {
    return fmt::format("{} tokens, {:.2g} nats apart on average, {:.2g} at most{}{}", count,
                       count ? sum / count : 0, most, where.empty() ? "" : ": ", where);
  }
};

/// Compares while the tokens are the same: behind that the places are others.
void compare_tokens(const Choice& one, const Choice& other, Difference& difference) {
  const std::size_t most = std::min(one.tokens.size(), other.tokens.size());
  for (std::size_t i = 0; i < most && one.tokens[i].token == other.tokens[i].token; ++i)
    difference.add(one.tokens[i], other.tokens[i]);
}

Finding check_echo(Subject& subject) {
  if (subject.top() == 0 || subject.chat())
    return {Verdict::not_supported, "only completions have echo", ""};
  Difference difference;
  Answer shown;
  for (const char* prompt : prompts()) {
    const Answer answer =
        subject.ask(subject.scored(subject.body(prompt, scored_tokens, {{"temperature", 1}}), 1));
    if (auto finding = subject.missing(answer))
      return *finding;
    shown =
        subject.ask(subject.scored(subject.body(prompt + answer.text(), 1, {{"echo", true}}), 1));
    if (auto finding = subject.missing(shown))
      return *finding;
    // The prompt's tokens come first; texts may be divided otherwise where they are read at once.
    const auto& all = shown.tokens();
    const auto& own = answer.tokens();
    if (const auto at = shown.first().echoed(prompt))
      for (std::size_t i = 0;
           i < own.size() && *at + i + 1 < all.size() && own[i].token == all[*at + i].token; ++i)
        difference.add(own[i], all[*at + i]);
  }
  if (difference.count == 0)
    return subject.say(Verdict::not_supported, "echo does not bring the prompt's log-probabilities",
                       shown);
  return subject.say(difference.small() ? Verdict::pass : Verdict::fail,
                     "said and scored: " + difference.text(), shown);
}

Finding compare_ways(Subject& subject, const std::vector<Answer>& some,
                     const std::vector<Answer>& others) {
  for (const auto* answers : {&some, &others})
    if (auto finding = subject.missing(*answers))
      return *finding;
  Difference difference;
  for (std::size_t i = 0; i < some.size(); ++i)
    compare_tokens(some[i].first(), others[i].first(), difference);
  if (difference.count == 0)
    return subject.say(Verdict::fail, "no log-probabilities came", others.front());
  return subject.say(difference.small() ? Verdict::pass : Verdict::fail, difference.text(),
                     others.front());
}

std::vector<json::object> scored_bodies(const Subject& subject, const json::object& fields) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    bodies.push_back(subject.scored(subject.body(prompt, scored_tokens, fields)));
  return bodies;
}

Finding check_streamed_scores(Subject& subject) {
  if (subject.top() == 0)
    return no_scores();
  return compare_ways(subject, subject.ask_all(scored_bodies(subject, {})),
                      subject.ask_all(scored_bodies(subject, {{"stream", true}})));
}

Finding check_speculated_scores(Subject& subject) {
  if (subject.top() == 0)
    return no_scores();
  if (!subject.has_plain())
    return no_twin();
  return compare_ways(subject, subject.ask_all_plain(scored_bodies(subject, {})),
                      subject.ask_all(scored_bodies(subject, {})));
}

} // namespace

void add_logprobs(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"logprobs", "possible",
        "log-probabilities are such as can be: not all 0, none above 0, sums "
        "up to 1, none below the listed that is not listed",
        check_possible},
       {"logprobs", "text", "the tokens make up the text", check_text},
       {"logprobs", "offsets", "text_offset is where the token stands", check_offsets},
       {"logprobs", "echo", "a text that is scored has the log-probabilities that it was said with",
        check_echo},
       {"logprobs", "streamed", "a stream has the whole answer's log-probabilities",
        check_streamed_scores},
       {"logprobs", "speculation", "log-probabilities are the same with speculation and without",
        check_speculated_scores}});
}

} // namespace paceline::apps::conformance
