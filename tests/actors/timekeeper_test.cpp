#include "actors/system/timekeeper.hpp"
#include "actors/system/virtual_time.hpp"

#include <doctest/doctest.h>

#include <future>
#include <optional>
#include <thread>
#include <vector>

using namespace paceline;
using namespace std::chrono_literals;
using actors::ActorTimekeeper;
using actors::VirtualSystem;

namespace {

/// A callback that shows when it is destroyed.
std::function<void()> holding(std::shared_ptr<int> token) {
  return [token = std::move(token)] { ++*token; };
}

} // namespace

TEST_CASE("after calls back at the exact virtual time") {
  VirtualSystem time(1);
  ActorTimekeeper keeper(time.system());
  const base::TimePoint start = keeper.now();
  std::vector<base::Duration> fired;
  for (const base::Duration delay : {14'100'000ns, 1ns, 3'600'000'000'000ns, 1'800'000ns})
    keeper.after(delay, [&] { fired.push_back(keeper.now() - start); });
  time.run();
  CHECK(fired == std::vector<base::Duration>{1ns, 1'800'000ns, 14'100'000ns, 1h});
}

TEST_CASE("callbacks that are due together keep their order") {
  VirtualSystem time(1);
  ActorTimekeeper keeper(time.system());
  std::vector<int> fired;
  for (int i = 0; i < 5; ++i)
    keeper.after(1ms, [&fired, i] { fired.push_back(i); });
  time.run();
  CHECK(fired == std::vector{0, 1, 2, 3, 4});
}

TEST_CASE("a callback may ask for the next one") {
  VirtualSystem time(1);
  ActorTimekeeper keeper(time.system());
  const base::TimePoint start = keeper.now();
  int steps = 0;
  std::function<void()> step = [&] {
    if (++steps < 10)
      keeper.after(7ms, step);
  };
  keeper.after(7ms, step);
  time.run();
  CHECK(steps == 10);
  CHECK(keeper.now() - start == 70ms);
}

TEST_CASE("a delay of zero or less calls back at once, but not from inside after") {
  VirtualSystem time(1);
  ActorTimekeeper keeper(time.system());
  const base::TimePoint start = keeper.now();
  std::vector<base::Duration> fired;
  const std::vector<base::Duration> delays{0ns, -1ns, base::Duration::min(), 0ns};
  for (const base::Duration delay : delays)
    keeper.after(delay, [&fired, delay] { fired.push_back(delay); });
  CHECK(fired.empty());
  time.run();
  CHECK(fired == delays);
  CHECK(keeper.now() == start);
}

TEST_CASE("a stopped timekeeper drops its callbacks and its virtual clock stands still") {
  const auto token = std::make_shared<int>(0);
  std::optional<VirtualSystem> time(std::in_place, 1);
  const auto keeper = std::make_shared<ActorTimekeeper>(time->system());
  keeper->after(1ms, [] {});
  time->run();
  const base::TimePoint stopped = keeper->now();
  keeper->after(1ms, holding(token));
  keeper->stop();
  keeper->after(1ms, holding(token));
  time->run();
  CHECK(*token == 0);
  CHECK(token.use_count() == 1);
  time.reset();
  keeper->stop();
  keeper->after(0ns, holding(token));
  CHECK(keeper->now() == stopped);
  CHECK(token.use_count() == 1);
}

TEST_CASE("callbacks that are pending when the system goes are destroyed, not called") {
  const auto token = std::make_shared<int>(0);
  {
    VirtualSystem time(1);
    ActorTimekeeper keeper(time.system());
    keeper.after(1h, holding(token));
    CHECK(token.use_count() == 2);
  }
  CHECK(*token == 0);
  CHECK(token.use_count() == 1);
}

TEST_CASE("in real time any thread may ask, callbacks come in order and never early") {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{1});
  std::optional<caf::actor_system> system(std::in_place, config);
  const auto keeper = std::make_shared<ActorTimekeeper>(*system);
  const base::TimePoint start = keeper->now();
  base::TimePoint asked;
  std::promise<base::TimePoint> first, second;
  std::thread([&] {
    keeper->after(20ms, [&] { second.set_value(keeper->now()); });
    keeper->after(1ms, [&] { first.set_value(keeper->now()); });
    asked = keeper->now();
  }).join();
  const base::TimePoint second_at = second.get_future().get();
  const base::TimePoint first_at = first.get_future().get();
  CHECK(first_at - start >= 1ms);
  CHECK(second_at - start >= 20ms);
  if (asked - start < 19ms) // Else the machine was away so long that the second was due before.
    CHECK(first_at <= second_at);

  const auto token = std::make_shared<int>(0);
  keeper->after(1h, holding(token));
  keeper->stop();
  system.reset();
  CHECK(*token == 0);
  CHECK(token.use_count() == 1);
  const base::TimePoint stopped = keeper->now();
  for (int looks = 0; keeper->now() == stopped && looks < 1'000'000; ++looks)
    continue;
  CHECK(keeper->now() > stopped); // the real clock goes on
}
