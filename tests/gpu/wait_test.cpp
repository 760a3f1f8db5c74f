#include "gpu/wait.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <pthread.h>
#include <thread>

using namespace paceline::gpu;
using namespace std::chrono_literals;

namespace {

/// The processor time of a thread that runs.
std::chrono::nanoseconds time_spent(std::jthread& thread) {
  clockid_t clock{};
  REQUIRE(pthread_getcpuclockid(thread.native_handle(), &clock) == 0);
  timespec spent{};
  REQUIRE(clock_gettime(clock, &spent) == 0);
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

} // namespace

TEST_CASE("who sleeps is woken") {
  WaitWord word;
  const std::jthread changer([&] {
    word.add(1);
    word.wake();
  });
  word.wait_change(0, 0ns);
  CHECK(word.load() == 1);
}

TEST_CASE("who sleeps and is roused looks for the change itself") {
  WaitWord word;
  std::jthread sleeper([&] { word.wait_change(0, 0ns); });
  // A hint may be lost, so it is given until the thread has been busy for a while without one.
  for (bool busy = false; !busy;) {
    word.rouse(1h);
    const auto before = time_spent(sleeper);
    for (int i = 0; i < 10'000 && !busy; ++i) {
      std::this_thread::yield();
      busy = time_spent(sleeper) - before > 1ms;
    }
  }
  word.add(1); // and nobody wakes it
  sleeper.join();
  CHECK(word.load() == 1);
}
