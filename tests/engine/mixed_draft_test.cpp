// A look-up that drafts beside a model: promises 1, 2 and 4 on the demo pair.
#include "tests/engine/draft_checks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions mixed(const std::string& model = "demo") {
  EngineOptions options;
  options.drafters = {"suffix", model};
  options.threads = 1;
  return options;
}

const char* const function = "def total_length(items):\n    total = 0\n    for item in items:\n"
                             "        total += len(item)\n    return total\n\n\n";

/// Greedy, of a text that repeats itself, and drawn by coupling.
std::vector<Request> mixed_requests() {
  return {repeatable(std::string(function) + function + "def total_length(", 32),
          repeatable("class Queue:\n    def ", 24, 7)};
}

const DrafterCounts& counts_of(const std::vector<DrafterCounts>& drafters,
                               const std::string& name) {
  for (const DrafterCounts& of : drafters)
    if (of.name == name)
      return of;
  FAIL("nobody is called " << name);
  return drafters.front();
}

} // namespace

TEST_CASE(
    "a look-up beside a model changes no token, whatever the mode, the model and the device") {
  const Answers expected = plain_answers_of({}, mixed_requests());
  for (const char* model : {"demo", "self:mxfp8", "eagle3:demo"})
    for (const SpeculationMode mode :
         {SpeculationMode::sync, SpeculationMode::overlap, SpeculationMode::automatic}) {
      CAPTURE(std::string(model));
      EngineOptions options = mixed(model);
      options.speculation = mode;
      CHECK(answers_of(options, mixed_requests()) == expected);
    }
  for (const char* model : {"demo", "self:mxfp8", "eagle3:demo"}) {
    CAPTURE(std::string(model));
    EngineOptions options = on_simulated(mixed(model));
    options.speculation = SpeculationMode::overlap;
    SpeculationStats stats;
    CHECK(answers_of(options, mixed_requests(), &stats) == expected);
    CHECK(stats.accepted > 10);
  }
}

TEST_CASE("of a look-up and a model both draft, and each has its figures") {
  EngineOptions options = on_simulated(mixed());
  options.speculation = SpeculationMode::sync;
  Engine engine = open_engine(options);
  CHECK(engine.drafters() == std::vector<std::string>{"suffix", "model"});
  const auto answers = ask_all(engine, mixed_requests());
  const SpeculationStats& copied = answers[0].end().speculation;
  CHECK(counts_of(copied.drafters, "suffix").accepted > 4);
  const SpeculationStats& drawn = answers[1].end().speculation;
  CHECK(counts_of(drawn.drafters, "model").accepted > 0);
  for (const SpeculationStats* stats : {&copied, &drawn}) {
    CHECK(stats->drafters[0].judged + stats->drafters[1].judged == stats->judged);
    CHECK(stats->drafters[0].accepted + stats->drafters[1].accepted == stats->accepted);
  }
  const Metrics metrics = engine.metrics();
  CHECK(counts_of(metrics.drafters, "suffix").judged ==
        copied.drafters[0].judged + drawn.drafters[0].judged);
  CHECK(counts_of(metrics.drafters, "model").accepted ==
        copied.drafters[1].accepted + drawn.drafters[1].accepted);
}

TEST_CASE("a request may say who drafts") {
  Engine engine = open_engine(on_simulated(mixed()));
  const Answers expected = plain_answers_of({}, mixed_requests());
  for (const char* choice : {"suffix", "model", "none"}) {
    CAPTURE(std::string(choice));
    Request request = mixed_requests()[0];
    request.drafter = choice;
    const Answer answer = ask(engine, request);
    CHECK(answer.tokens == expected[0]);
    for (const DrafterCounts& of : answer.end().speculation.drafters)
      CHECK((of.judged > 0) == (of.name == choice));
  }
  Request request = mixed_requests()[0];
  request.drafter = "demo";
  const auto refused = engine.submit(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text() ==
        "Request::drafter is 'demo', which does not draft here: give none "
        "or suffix or model or form, or leave it out");
}

TEST_CASE("killed again and again, a look-up and a model lose no token, and are disabled") {
  check_survives_kills(on_simulated(mixed()), mixed_requests(), false, 20);
  check_survives_kills(on_simulated(mixed("eagle3:demo")), mixed_requests(), true, 10);
}

TEST_CASE("drafts that cannot draft beside each other are refused, and what to do is said") {
  check_refused(mixed("ngram"), {"EngineOptions::drafters are suffix and ngram"});
  check_refused(mixed("none"), {"EngineOptions::drafters are suffix and none"});
  check_refused(mixed("suffix"), {"give one, or suffix and a model"});
  EngineOptions three = mixed();
  three.drafters = {"suffix", "demo", "self:mxfp4"};
  check_refused(three, {"give one, or suffix and a model"});
  EngineOptions ngram = mixed();
  ngram.drafters = {"ngram", "demo"};
  check_refused(ngram, {"EngineOptions::drafters are ngram and demo", "give one"});
}
