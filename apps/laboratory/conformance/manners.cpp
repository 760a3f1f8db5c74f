// What the server does when clients go away, or ask for nonsense.
#include "apps/console/json_text.hpp"
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"
#include "apps/laboratory/load/server_metrics.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

using namespace std::chrono_literals;

constexpr int broken_connections = 100;
constexpr auto settle_time = 30s; ///< A server that still works for nobody then is not clearing up.

/// Waits until the server says that it works for nobody. Returns how many requests it still has, by
/// its metrics; none: it has no such page.
std::optional<double> left_running(Subject& subject) {
  const auto until = std::chrono::steady_clock::now() + settle_time;
  std::optional<double> left;
  for (auto pause = 0ms;; pause = 50ms) {
    std::this_thread::sleep_for(pause); // So that asking is no load.
    const auto state = load::read_metrics(subject.page("/metrics"));
    left = state ? std::optional(state->running + state->waiting) : std::nullopt;
    if (!left || *left <= 0 || subject.stopped() || std::chrono::steady_clock::now() >= until)
      return left;
  }
}

std::vector<json::object> small_bodies(const Subject& subject) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    bodies.push_back(subject.body(prompt, 24));
  return bodies;
}

/// Breaks connections, and looks whether what was answered before is answered as before.
Finding check_breaks(Subject& subject, const std::vector<json::object>& bodies,
                     const load::ServerClient::Patience& patience, const std::string& how) {
  const auto before = subject.ask_all(small_bodies(subject));
  subject.break_off(bodies, patience);
  const auto left = left_running(subject);
  if (left && *left > 0)
    return {Verdict::fail,
            fmt::format("{:g} requests are left {} s after {}", *left, settle_time.count(), how),
            subject.curl_raw(json_text(bodies.front()))};
  const auto after = subject.ask_all(small_bodies(subject));
  for (const Answer& answer : after)
    if (!answer.ok()) // What those held was not given back.
      return subject.say(Verdict::fail, fmt::format("after {}: {}", how, answer.error), answer);
  return same_answers(subject, before, after, "after " + how);
}

/// Breaks connections at moments that are spread over the time that a first token takes, so that
/// some break in prefill however fast the server is.
Finding check_cancel_in_prefill(Subject& subject) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += fmt::format(" {} {}", i, prompts()[std::size_t(i) % prompts().size()]);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  subject.ask(subject.body("first" + text, 1));
  const auto first_token = Clock::now() - begin;
  std::vector<json::object> bodies;
  for (int i = 0; i < 16; ++i)
    bodies.push_back(subject.body(fmt::format("{}{}", i, text), 200));
  const auto spread = [&](std::size_t i) {
    return std::chrono::ceil<std::chrono::milliseconds>(first_token * (i + 1) / bodies.size());
  };
  return check_breaks(subject, bodies, spread,
                      fmt::format("{} connections broke in prefill", bodies.size()));
}

Finding check_cancel_in_stream(Subject& subject) {
  std::vector<json::object> bodies;
  for (int i = 0; i < broken_connections; ++i)
    bodies.push_back(subject.body(prompts()[std::size_t(i) % prompts().size()], 200,
                                  {{"stream", true}, {"temperature", i % 2}}));
  return check_breaks(
      subject, bodies, [](std::size_t) { return 10s; },
      fmt::format("{} connections broke in streams", bodies.size()));
}

/// Bodies that no server should take, with what is wrong about them.
std::vector<std::pair<std::string, std::string>> malformed(const Subject& subject) {
  std::vector<std::pair<std::string, std::string>> bodies{
      {"a body that is no JSON", "{\"prompt\": "},
      {"a body that is a list", "[1, 2]"},
      {"an empty object", "{}"},
  };
  const json::object good = subject.body(prompts()[0], 4);
  const auto add = [&](const char* name, const json::value& value) {
    json::object body = good;
    body[name] = value;
    bodies.emplace_back(fmt::format("{}: {}", name, json::serialize(value)), json::serialize(body));
  };
  add(subject.chat() ? "messages" : "prompt", json::object{{"text", 1}});
  add("temperature", "hot");
  add("temperature", -1);
  add("top_p", 2);
  add("max_tokens", -5);
  add("max_tokens", "many");
  add("n", 0);
  add("stop", json::object{{"at", 7}});
  add("logit_bias", "all");
  add("stream", "perhaps");
  add("presence_penalty", "much");
  add("seed", "x");
  return bodies;
}

Finding check_errors(Subject& subject, bool strict) {
  const auto bodies = malformed(subject);
  std::string taken;
  std::string shown;
  for (const auto& [what, body] : bodies) {
    const Answer answer = subject.ask_raw(body);
    if (subject.stopped())
      return {};
    if (answer.status == 0 || answer.status >= 500)
      return {Verdict::fail, fmt::format("{} is answered so: {}", what, answer.error),
              subject.curl_raw(body)};
    if (answer.status == 200) {
      taken += (taken.empty() ? "" : ", ") + what;
      shown = shown.empty() ? body : shown;
    } else if (answer.error.find(": ") == std::string::npos) {
      return {Verdict::fail, fmt::format("{} is refused without a word: {}", what, answer.error),
              subject.curl_raw(body)};
    }
  }
  if (strict && !taken.empty())
    return {Verdict::fail, "taken as if it were good: " + taken, subject.curl_raw(shown)};
  return {Verdict::pass, fmt::format("{} malformed requests", bodies.size()),
          subject.curl_raw(bodies[4].second)};
}

Finding check_too_long(Subject& subject) {
  constexpr int most = 1 << 17;
  const auto context = subject.context();
  if (!context || *context > most)
    return {Verdict::not_decidable,
            "/v1/models does not say how long the context is, or it is long", ""};
  std::string text;
  for (int i = 0; i <= *context; ++i)
    text += fmt::format(" {}", i);
  Answer answer = subject.ask(subject.body(text, 4));
  answer.asked = subject.body(text.substr(0, 40) + " ...", 4); // What a person wants to read.
  if (answer.status >= 400 && answer.status < 500)
    return subject.say(Verdict::pass, answer.error, answer);
  return subject.say(Verdict::fail,
                     answer.ok() ? fmt::format("a prompt of more than {} tokens is answered; usage "
                                               "counts {}",
                                               *context, answer.prompt_tokens.value_or(0))
                                 : answer.error,
                     answer);
}

} // namespace

void add_manners(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"manners", "cancel-prefill", "clients that go before a token came leave nothing behind",
        check_cancel_in_prefill},
       {"manners", "cancel-stream", "a hundred that go in a stream leave nothing behind",
        check_cancel_in_stream},
       {"manners", "errors",
        "what is malformed is refused with a word, and is no fault of the "
        "server's",
        [](Subject& subject) { return check_errors(subject, false); }},
       {"manners", "strict", "nothing malformed is taken as if it were good",
        [](Subject& subject) { return check_errors(subject, true); }},
       {"manners", "too-long", "a prompt beyond the context is refused, not cut", check_too_long}});
}

} // namespace paceline::apps::conformance
