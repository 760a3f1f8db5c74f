// What a round costs in messages, and what is counted of it.
#include "sampling/theory.hpp"
#include "tests/exactness/cases.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

namespace {

/// One long output on lanes of fixed order.
Setting long_output(SpeculationMode mode, int window, int length) {
  Setting s;
  s.policy.mode = mode;
  s.policy.window = window;
  s.acceptance = 0.8;
  s.length = length;
  s.requests = 1;
  s.warm_up = 0;
  s.together = 1;
  s.page_tokens = 16;
  s.order = exact_order;
  s.pace = {.target = 14100us, .draft = 1800us, .judging = 0us};
  return s;
}

struct PerRound {
  double messages = 0; ///< Between actors, lane completions included.
  double alarms = 0;   ///< That the scheduler set for itself.
};

/// The metrics count messages where they are received. The virtual system counts all that is
/// delivered: what is neither a message of the metrics nor a lane's own callback (a timer and a
/// message) is an alarm (the same).
PerRound cost_of(const Outcome& outcome) {
  const auto rounds = double(outcome.seen.steps);
  const auto messages = double(outcome.metrics.messages);
  const double others = double(outcome.steps) - 2.0 * double(outcome.callbacks) - messages;
  return {messages / rounds, others / 2 / rounds};
}

} // namespace

TEST_CASE("a steady round takes at most eight messages, alarms included") {
  for (const auto mode : {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap})
    for (const int window : {1, 2, 4, 6}) {
      CAPTURE(to_string(mode));
      CAPTURE(window);
      const PerRound cost = cost_of(run(long_output(mode, window, 3000)));
      CHECK(cost.messages >= 4);
      CHECK(cost.alarms >= 0);
      CHECK(cost.messages + cost.alarms <= 8);
    }
}

TEST_CASE("a round of many sequences takes no more messages than one of one") {
  for (const auto mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(to_string(mode));
    Setting setting = long_output(mode, 3, 1000);
    setting.requests = setting.together = 16;
    const PerRound cost = cost_of(run(setting));
    // Requests for pages are a sequence's own: two messages every 64 of its tokens.
    const double pages = 2.0 / 64 * 16 * sampling::theory::expected_tokens(0.8, 3);
    CHECK(cost.messages + cost.alarms <= 8 + pages);
  }
}

TEST_CASE("the scheduler's alarms do not multiply as a request grows") {
  for (const auto mode : {SpeculationMode::sync, SpeculationMode::overlap}) {
    CAPTURE(to_string(mode));
    const double early = cost_of(run(long_output(mode, 4, 1000))).alarms;
    const double late = cost_of(run(long_output(mode, 4, 20'000))).alarms;
    CHECK(late < early + 0.1);
  }
}

TEST_CASE("judged are accepted tokens and first rejections, never rows behind a rejection") {
  for (Case& c : cases_of(sampling::Rule::rejection)) {
    CAPTURE(c.name);
    c.setting.requests = 500;
    c.setting.warm_up = 0;
    const Outcome outcome = run(c.setting);
    CHECK(outcome.metrics.judged == outcome.seen.judged);
    CHECK(outcome.metrics.accepted == outcome.seen.accepted);
    CHECK(outcome.metrics.lookahead_hits == outcome.seen.hits);
    CHECK(outcome.seen.judged > outcome.seen.accepted);
  }
}
