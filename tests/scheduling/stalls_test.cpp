// When a lane counts as standing still.
#include "scheduling/draft_trust.hpp"
#include "scheduling/limits.hpp"
#include "scheduling/step_cost.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

TEST_CASE("a step may take fifty times as long as it should, and never less than the least") {
  StepCost cost;
  CHECK(cost.timeout(1, 0, 1s) == scheduling::limits::first_step_timeout); // like none before
  cost.observe(4, 0, 10ms);
  CHECK(cost.timeout(4, 0, 1s) == 1s);
  CHECK(cost.timeout(4, 0, 100ms) == 500ms);
  CHECK(cost.timeout(400, 0, 1s) == 50s); // a prompt's rows take their time
}

TEST_CASE("without a least time a draft is never given up") {
  DraftWatch watch(0s);
  CHECK_FALSE(watch.stands_still(true, false, 1ms, base::TimePoint(0s)));
  CHECK_FALSE(watch.stands_still(true, false, 1ms, base::TimePoint(1h)));
}

TEST_CASE("a draft stands still when it owes tokens and has written nothing for long") {
  DraftWatch watch(10s);
  const auto at = [](base::Duration time) { return base::TimePoint(time); };
  CHECK_FALSE(watch.stands_still(true, false, 1ms, at(0s)));
  CHECK_FALSE(watch.stands_still(true, false, 1ms, at(1s)));
  CHECK_FALSE(watch.stands_still(true, false, 1ms, at(9s)));
  CHECK_FALSE(watch.stands_still(true, true, 1ms, at(12s))); // a sign of life
  CHECK_FALSE(watch.stands_still(true, false, 1ms, at(13s)));
  CHECK_FALSE(watch.stands_still(true, false, 1s, at(23s))); // a slow one
  CHECK(watch.stands_still(true, false, 1ms, at(23s)));
  CHECK_FALSE(watch.stands_still(true, false, 1ms, at(24s))); // its successor has time again
}

TEST_CASE("a draft that stands still is found out by requests that are shorter than that takes") {
  DraftWatch watch(10s);
  base::TimePoint now{};
  for (int request = 0; request < 3; ++request) {
    CHECK_FALSE(watch.stands_still(true, false, 1ms, now));
    now += 3s;
    CHECK_FALSE(watch.stands_still(false, false, 1ms, now)); // it is over, and nobody asks
    now += 1h;
  }
  CHECK_FALSE(watch.stands_still(true, false, 1ms, now));
  CHECK(watch.stands_still(true, false, 1ms, now + 1s));
}
