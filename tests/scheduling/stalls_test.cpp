// When a lane counts as standing still.
#include "scheduling/draft_trust.hpp"
#include "scheduling/limits.hpp"
#include "scheduling/step_times.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

TEST_CASE("a pass may take fifty times as long as passes did, and never less than the least") {
  StepTimes times(1s);
  times.observe(1, false, 10ms);
  CHECK(times.timeout(1, false) == 1s);
  StepTimes slow(1s);
  slow.observe(4, false, 100ms);
  CHECK(slow.timeout(1, false) == 5s);
  for (int i = 0; i < 100; ++i)
    slow.observe(4, false, 200ms);
  CHECK(*slow.timeout(1, false) > 9900ms);
  CHECK(*slow.timeout(1, false) <= 10s);
}

TEST_CASE("a pass that reads a prompt is judged by its rows, not by passes that decode") {
  StepTimes times(1s);
  times.observe(1, false, 10ms);
  CHECK(times.timeout(512, true) == scheduling::limits::first_step_timeout); // like none before
  times.observe(100, true, 200ms);
  CHECK(times.timeout(500, true) == 50s);
  CHECK(times.timeout(1, true) == 1s);
  CHECK(times.timeout(1, false) == 1s); // and leaves those alone
}

TEST_CASE("without a least time nothing is ever given up") {
  StepTimes times(0s);
  CHECK_FALSE(times.timeout(1, false));
  times.observe(1, false, 10ms);
  CHECK_FALSE(times.timeout(1, false));
  DraftWatch watch(0s);
  CHECK_FALSE(watch.stands_still(true, 0, 1ms, base::TimePoint(0s)));
  CHECK_FALSE(watch.stands_still(true, 0, 1ms, base::TimePoint(1h)));
}

TEST_CASE("a draft stands still when it owes tokens and has written nothing for long") {
  DraftWatch watch(10s);
  const auto at = [](base::Duration time) { return base::TimePoint(time); };
  CHECK_FALSE(watch.stands_still(true, 5, 1ms, at(0s)));
  CHECK_FALSE(watch.stands_still(true, 5, 1ms, at(1s)));
  CHECK_FALSE(watch.stands_still(true, 5, 1ms, at(10s)));
  CHECK_FALSE(watch.stands_still(true, 6, 1ms, at(12s))); // a sign of life
  CHECK_FALSE(watch.stands_still(true, 6, 1ms, at(13s)));
  CHECK_FALSE(watch.stands_still(false, 6, 1ms, at(14s))); // it owes nothing
  CHECK_FALSE(watch.stands_still(true, 6, 1ms, at(15s)));
  CHECK_FALSE(watch.stands_still(true, 6, 1s, at(25s))); // a slow one
  CHECK(watch.stands_still(true, 6, 1ms, at(25s)));
  CHECK_FALSE(watch.stands_still(true, 6, 1ms, at(26s))); // its successor has time again
}
