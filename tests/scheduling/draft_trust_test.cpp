// How long nothing is drafted after the draft was late.
#include "scheduling/draft_trust.hpp"
#include "scheduling/limits.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

constexpr base::TimePoint begin{1h};

/// How long nothing is drafted from `now` on, to the second.
base::Duration pause(const DraftBackOff& back_off, base::TimePoint now) {
  base::Duration pause{};
  while (!back_off.drafts(now + pause))
    pause += 1s;
  return pause;
}

} // namespace

TEST_CASE("nothing is drafted for as long as a late draft has held a sequence up") {
  DraftBackOff back_off;
  CHECK(back_off.drafts(begin));
  back_off.cost(begin, begin + 10s);
  CHECK(pause(back_off, begin + 10s) == 10s);
}

TEST_CASE("a clock that began with the engine makes no difference") {
  DraftBackOff back_off;
  back_off.cost({}, base::TimePoint{10s});
  CHECK(pause(back_off, base::TimePoint{10s}) == 10s);
}

TEST_CASE("sequences that one delay has held up count once") {
  DraftBackOff back_off;
  for (int sequence = 0; sequence < 5; ++sequence)
    back_off.cost(begin + sequence * 1ms, begin + 10s);
  CHECK(pause(back_off, begin + 10s) == 10s);
}

TEST_CASE(
    "delays again and again pause for longer and longer, and no more when they were long ago") {
  DraftBackOff back_off;
  base::TimePoint now = begin;
  for (const int factor : {1, 2, 4, 8, 16, 16}) {
    back_off.cost(now, now + 1s);
    now += 1s;
    CHECK(pause(back_off, now) == factor * 1s);
    now += pause(back_off, now);
  }
  now += limits::draft_idle_factor_max * 1s;
  back_off.cost(now, now + 1s);
  CHECK(pause(back_off, now + 1s) == 1s);
}
