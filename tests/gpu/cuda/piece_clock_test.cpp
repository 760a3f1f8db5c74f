#include "gpu/cuda/piece_clock.hpp"

#include "gpu/thread_lane.hpp"

#include <doctest/doctest.h>

using namespace paceline::gpu;
using namespace paceline::gpu::cuda;
using namespace std::chrono_literals;

namespace {

Work verified(int n) {
  return {.kind = Work::Kind::verify, .rows = n, .sequences = 1};
}

/// A clock that is told the time, and the pieces of one lane.
struct TimedLane {
  void run(int n, PieceClock::Clock::duration took) {
    clock.launch(verified(n), now);
    now += took;
    clock.finish(now);
  }
  PieceClock::Clock::duration expected(int n) {
    clock.launch(verified(n), now);
    const auto left = clock.left(now);
    clock.abandon();
    return left;
  }

  PieceClock clock;
  PieceClock::Clock::time_point now{1h};
};

} // namespace

TEST_CASE("a piece is expected to take the least of the last four like it, and others nothing") {
  TimedLane lane;
  for (const auto took : {9ms, 8ms, 90ms}) {
    lane.run(4, took);
    CHECK(lane.expected(4) == 0ms);
  }
  lane.run(4, 10ms);
  CHECK(lane.expected(4) == 8ms);
  CHECK(lane.expected(5) == 0ms);
  lane.run(4, 11ms);
  lane.run(4, 11ms);
  CHECK(lane.expected(4) == 10ms);
  lane.run(4, 4ms);
  CHECK(lane.expected(4) == 4ms);
}

TEST_CASE("pieces whose ends were seen late, whenever that was, make nobody sleep past an end") {
  for (int late = 0; late < 8; ++late) {
    TimedLane lane;
    for (int i = 0; i < 12; ++i) {
      lane.run(4, i == late ? 30s : 8ms);
      CHECK(lane.expected(4) <= 8ms);
    }
  }
}

TEST_CASE("a piece behind another begins when that one ends, or when it is launched") {
  TimedLane lane;
  for (int i = 0; i < 4; ++i)
    lane.run(4, 8ms);
  lane.clock.launch(verified(4), lane.now);
  lane.clock.launch(verified(4), lane.now + 1ms);
  lane.clock.finish(lane.now + 8ms);
  CHECK(lane.clock.left(lane.now + 10ms) == 6ms);
  lane.clock.finish(lane.now + 16ms);
  lane.clock.launch(verified(4), lane.now + 20ms);
  CHECK(lane.clock.left(lane.now + 21ms) == 7ms);
  CHECK(lane.clock.left(lane.now + 30ms) < 0ms);
}

TEST_CASE("a pause lasts until shortly before what it waits for") {
  const auto begin = PieceClock::Clock::now();
  Pause pause(16ms);
  pause.rest();
  CHECK(PieceClock::Clock::now() - begin >= 15ms);
}
