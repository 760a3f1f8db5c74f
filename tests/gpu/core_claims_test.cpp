#include "gpu/cpu/core_claims.hpp"
#include "gpu/device.hpp"
#include "gpu/wait.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

using namespace paceline;
using namespace paceline::gpu;
using namespace std::chrono_literals;
using gpu::cpu::CoreClaims;
using gpu::testing::RealTime;
using gpu::testing::TestStep;

TEST_CASE("a lane's own work is no reason to leave a core, another's is") {
  CoreClaims target({70, 71});
  {
    CoreClaims draft({71});
    target.claim();
    CHECK(!target.wanted_by_others(71));
    CHECK(draft.wanted_by_others(71));

    draft.claim();
    draft.claim(); // The same once more.
    CHECK(target.wanted_by_others(71));
    CHECK(!target.wanted_by_others(70));

    target.release();
    CHECK(target.wanted_by_others(71));
    CHECK(!draft.wanted_by_others(71));
  }
  CHECK(!target.wanted_by_others(71)); // A lane that is gone wants nothing.
}

TEST_CASE("a lane wants its cores from submission to retirement") {
  const auto device = open_device("cpu:0", {1, std::make_shared<RealTime>(), nullptr}).value();
  const auto lane = device->open_lane("target").value();
  const CoreClaims other({0});

  std::promise<void> free;
  auto step =
      std::make_shared<TestStep>([held = free.get_future().share()](Operations&) { held.wait(); });
  REQUIRE(lane->submit(step));
  CHECK(other.wanted_by_others(0));
  free.set_value();
  CHECK(step->wait().completed);
  while (other.wanted_by_others(0)) // Looks at its queue once more.
    std::this_thread::yield();
}

TEST_CASE("who sleeps and is roused looks again, but not on a core that somebody else wants") {
  WaitWord word;
  std::atomic<bool> looked{false};
  std::jthread sleeper([&] {
    word.wait_change(0, 0ns, 0ns, [&] { // asked by nobody but a thread that was roused
      looked = true;
      return false;
    });
  });
  while (!looked) {
    word.rouse(1h);
    std::this_thread::yield();
  }
  word.add(1);
  word.wake();
  sleeper.join();

  std::atomic<int> asked{0};
  word.rouse(1h);
  const std::jthread changer([&] {
    while (asked == 0)
      std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) // time enough to be asked again
      std::this_thread::yield();
    word.add(1);
    word.wake();
  });
  word.wait_change(1, 0ns, 0ns, [&] {
    ++asked;
    return true;
  });
  CHECK(asked == 1);
}

TEST_CASE("a thread that waits leaves its core to others behind its time alone") {
  WaitWord word;
  int asked = 0;
  word.wait_change(0, 1h, 0ns, [&] {
    if (++asked == 3)
      word.add(1);
    return true;
  });
  CHECK(asked == 3);

  const std::jthread changer([&] {
    word.add(1);
    word.wake();
  });
  word.wait_change(1, 1ms, 1h, [&] {
    ++asked;
    return true;
  });
  CHECK(asked == 3);
}
