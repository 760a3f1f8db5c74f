// What another machine's clock is said to show.
#include "base/remote_clock.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace paceline::base;
using namespace std::chrono_literals;

namespace {

/// A machine whose clock is ahead, behind a wire.
struct There {
  Duration ahead;
  RemoteClock seen{};

  /// A question at `at` that takes `out` to get there, and its answer `back`.
  TimePoint ask(TimePoint at, Duration out, Duration back) {
    seen.observe(at, at + out + ahead, at + out + back);
    return at + out + back;
  }
  Duration error(TimePoint at) const { return abs(seen.estimate(at)->ahead - ahead); }
  Duration uncertainty(TimePoint at) const { return seen.estimate(at)->uncertainty; }
};

} // namespace

TEST_CASE("nothing is known of a clock that nobody has read") {
  CHECK_FALSE(RemoteClock().estimate(TimePoint(1s)));
}

TEST_CASE("a clock is known to half of the way there and back, however lopsided that was") {
  for (const Duration ahead : {Duration(-5h + 3ms), Duration(0), Duration(5000h + 7ns)}) {
    There there{ahead};
    const TimePoint end = there.ask(TimePoint(10s), 200us, 200us);
    CHECK(there.error(end) == 0ns);
    CHECK(there.uncertainty(end) == 200us);
    There lopsided{ahead};
    lopsided.ask(TimePoint(10s), 0us, 400us);
    CHECK(lopsided.error(end) == 200us);
    CHECK(lopsided.uncertainty(end) == 200us);
    CHECK(lopsided.seen.estimate(end)->here(end + ahead) == end + 200us);
  }
}

TEST_CASE("the answer counts that waited least, until it is old") {
  There there{1h};
  TimePoint now = there.ask(TimePoint(0s), 50us, 60us);
  for (int i = 0; i < 5; ++i)
    now = there.ask(now + 250ms, 20ms, 100us); // a queue on the way there
  CHECK(there.error(now) == 5us);
  CHECK(there.uncertainty(now) > 55us);
  CHECK(there.uncertainty(now) < 300us); // by what clocks may have drifted meanwhile
  for (int i = 0; i < 40; ++i)
    now = there.ask(now + 250ms, 2ms, 1ms);
  CHECK(there.error(now) == 500us);
  CHECK(there.uncertainty(now) == 1500us);
}

TEST_CASE("what is said of a clock that drifts stays true") {
  std::mt19937 random(1);
  There there{0s};
  TimePoint now{};
  for (int i = 0; i < 2000; ++i) {
    there.ahead += 25us / 4; // 25 millionths of a quarter of a second
    now += 250ms;
    const auto wait = [&] {
      return random() % 10 == 0 ? Duration(5ms) : Duration(30us + 1us * (random() % 50));
    };
    const Duration out = wait();
    there.ask(now, out, wait());
    CHECK(there.error(now + 200ms) <= there.uncertainty(now + 200ms));
  }
}
