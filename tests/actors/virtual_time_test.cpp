#include "actors/system/virtual_time.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace paceline;
using namespace std::chrono_literals;
using actors::VirtualSystem;
using actors::VirtualTimeOptions;

namespace {

using Log = std::vector<std::string>;

/// Writes down what it is sent, with the time.
caf::behavior scribe(caf::event_based_actor* self, Log* log, VirtualSystem* time) {
  return {[=](int number) {
            log->push_back(std::to_string(self->id() % 100) + ":" + std::to_string(number));
          },
          [=](const std::string& text) {
            log->push_back(text + "@" + std::to_string(time->now().time_since_epoch().count()));
          }};
}

/// Three actors with two messages each, and timers at 1 ms and 2 ms.
Log mixed_run(std::uint64_t seed, VirtualTimeOptions options) {
  VirtualSystem time(seed, options);
  Log log;
  std::vector<caf::actor> actors;
  for (int i = 0; i < 3; ++i)
    actors.push_back(time.system().spawn(scribe, &log, &time));
  caf::delayed_anon_send(actors[0], 2ms, std::string("late"));
  caf::delayed_anon_send(actors[1], 1ms, std::string("early"));
  for (int number = 0; number < 2; ++number)
    for (const caf::actor& actor : actors)
      caf::anon_send(actor, number);
  time.run();
  return log;
}

constexpr VirtualTimeOptions shuffled{
    .shuffle = true, .early_timer_probability = 0.3, .early_timer_reach = 1s};

std::size_t index_of(const Log& log, std::string_view prefix) {
  for (std::size_t i = 0; i < log.size(); ++i)
    if (log[i].starts_with(prefix))
      return i;
  return log.size();
}

caf::behavior once_a_minute(caf::event_based_actor* self, int* fired) {
  self->delayed_send(self, 1min, 1);
  return {[=](int minute) {
    ++*fired;
    if (minute < 60)
      self->delayed_send(self, 1min, minute + 1);
  }};
}

caf::behavior counter(caf::event_based_actor*, int* seen) {
  return {[=](int) { ++*seen; }};
}

/// Sends itself a message whenever it gets one.
caf::behavior restless(caf::event_based_actor* self, base::Duration pause) {
  const auto again = [=] {
    if (pause > 0ns)
      self->delayed_send(self, pause, 1);
    else
      self->send(self, 1);
  };
  again();
  return {[=](int) { again(); }};
}

} // namespace

TEST_CASE("without a shuffle actors take turns and messages go before timers") {
  const Log log = mixed_run(1, {});
  REQUIRE(log.size() == 8);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(log[i].ends_with(":0"));
    CHECK(log[i + 3].ends_with(":1"));
    CHECK(log[i].substr(0, 2) == log[i + 3].substr(0, 2));
  }
  CHECK(log[6] == "early@1000001");
  CHECK(log[7] == "late@2000001");
  CHECK(log == mixed_run(2, {}));
}

TEST_CASE("the same seed gives the same order, and other seeds others") {
  std::vector<Log> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    orders.push_back(mixed_run(seed, shuffled));
    CHECK(orders.back() == mixed_run(seed, shuffled));
  }
  std::sort(orders.begin(), orders.end());
  CHECK(std::unique(orders.begin(), orders.end()) - orders.begin() > 10);
}

TEST_CASE("a timer may fire while messages are pending, but timers keep their order") {
  int overtook = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const Log log = mixed_run(seed, shuffled);
    REQUIRE(log.size() == 8);
    overtook += index_of(log, "early") < 6;
    CHECK(log[index_of(log, "early")].substr(6) <= log[index_of(log, "late")].substr(5));
  }
  CHECK(overtook > 5);
  CHECK(overtook < 50);
}

TEST_CASE("timers beyond the reach never fire early") {
  VirtualTimeOptions near = shuffled;
  near.early_timer_probability = 1.0;
  near.early_timer_reach = 1500us;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    VirtualSystem time(seed, near);
    Log log;
    const caf::actor actor = time.system().spawn(scribe, &log, &time);
    caf::delayed_anon_send(actor, 2ms, std::string("far"));
    caf::delayed_anon_send(actor, 1ms, std::string("near"));
    for (int number = 0; number < 3; ++number)
      caf::anon_send(actor, number);
    time.step();
    CHECK(time.now().time_since_epoch() == 1ms + 1ns); // near goes first; now far is in reach
    time.step();
    CHECK(time.now().time_since_epoch() == 2ms + 1ns);
    time.cancel_timers();
    caf::delayed_anon_send(actor, 1501us, std::string("far"));
    for (int n = 0; n < 5; ++n) {
      CHECK(log.size() == std::size_t(n));
      time.step();
    }
    CHECK(time.now().time_since_epoch() == 2ms + 1ns);
  }
}

TEST_CASE("a timer that is due is one more candidate among the runnable actors") {
  int first = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    VirtualSystem time(seed, {.shuffle = true});
    Log log;
    const caf::actor busy = time.system().spawn(scribe, &log, &time);
    const caf::actor due = time.system().spawn(scribe, &log, &time);
    caf::anon_send(busy, 0);
    caf::delayed_anon_send(due, 0ns, 1);
    time.run();
    REQUIRE(log.size() == 2);
    first += log[0].ends_with(":1");
  }
  // The timer has to win twice: to fire, then against the other job: 1/4. Five sigma: 50 +- 31.
  CHECK(first > 19);
  CHECK(first < 81);
}

TEST_CASE("an hour of virtual time takes no more steps than its timers") {
  VirtualSystem time(1);
  int fired = 0;
  const base::TimePoint start = time.now();
  time.system().spawn(once_a_minute, &fired);
  const std::size_t steps = time.run();
  CHECK(fired == 60);
  CHECK(time.now() - start == 1h);
  CHECK(steps <= 2 * 60 + 2);
}

TEST_CASE("run stops at its limit, run_until when it is there or when nothing is left") {
  VirtualSystem time(1);
  int seen = 0;
  const caf::actor actor = time.system().spawn(counter, &seen);
  time.run();
  for (int i = 0; i < 5; ++i)
    caf::anon_send(actor, i);
  CHECK(time.run(2) == 2);
  CHECK(seen == 2);
  CHECK(time.run_until([&] { return seen == 4; }));
  CHECK(seen == 4);
  CHECK_FALSE(time.run_until([&] { return seen == 9; }));
  CHECK(seen == 5);
  CHECK(time.run() == 0);
  CHECK_FALSE(time.step());
}

TEST_CASE("run_until a point of time goes no further, and gets there though nothing happens") {
  VirtualSystem time(1);
  const base::TimePoint start = time.now();
  int fired = 0;
  time.system().spawn(once_a_minute, &fired);
  CHECK_FALSE(time.run_until([] { return false; }, start + 90s));
  CHECK(fired == 1);
  CHECK(time.now() == start + 90s);
  CHECK_FALSE(time.run_until([] { return false; }, start + 120s)); // what is due then happens
  CHECK(fired == 2);
  CHECK(time.run_until([&] { return fired == 3; }, start + 1h));
  CHECK(time.now() == start + 180s);
  CHECK_FALSE(time.run_until([] { return false; }, start)); // long past
  CHECK(time.now() == start + 180s);
  CHECK_FALSE(time.run_until([] { return false; }, start + 24h));
  CHECK(fired == 60);
  CHECK(time.now() == start + 24h);
}

TEST_CASE("an actor that sets a timer whenever one fires does not keep the system alive") {
  VirtualSystem time(1);
  time.system().spawn(restless, base::Duration(1ms));
  CHECK(time.run(1000) == 1000);
}

TEST_CASE("an actor that never stops talking does not keep the system alive") {
  VirtualSystem time(1);
  time.system().spawn(restless, base::Duration(0ns));
  CHECK(time.run(1000) == 1000);
}
