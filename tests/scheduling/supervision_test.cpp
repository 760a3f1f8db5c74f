#include "scheduling/supervision.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

using namespace paceline;
using namespace paceline::scheduling;
using namespace std::chrono_literals;

namespace {

enum : Child { facade, scheduler, draft, target, sampler, kv_cache };

FaultOptions faults() {
  FaultOptions faults;
  faults.restarts_max = 3;
  faults.restart_pause = 10ms;
  faults.restart_pause_max = 50ms;
  faults.restarts_forgotten = 10s;
  return faults;
}

struct Shown {
  std::string operator()(const StartChild& a) const { return "start " + std::to_string(a.child); }
  std::string operator()(const EndChild& a) const { return "end " + std::to_string(a.child); }
  std::string operator()(const DisableDraft&) const { return "disable"; }
  std::string operator()(const MoveTarget&) const { return "move"; }
  std::string operator()(const Announce&) const { return "announce"; }
  std::string operator()(const EndEngine&) const { return "end all"; }
  std::string operator()(const WakeAfter& a) const {
    return "wake " + std::to_string(a.delay / 1ms);
  }
};

/// Actions, one after the other: "start 4, announce".
std::string shown(const Supervision::Actions& actions) {
  std::string all;
  for (const auto& action : actions)
    all += (all.empty() ? "" : ", ") + std::visit(Shown{}, action);
  return all;
}

struct SupervisionWorld {
  explicit SupervisionWorld(bool has_standby = false)
      : supervision({{Role::facade, Role::scheduler, Role::draft, Role::target, Role::sampler,
                      Role::kv_cache},
                     faults(),
                     has_standby}) {
    CHECK(shown(supervision.start(now)) ==
          "start 0, start 1, start 2, start 3, start 4, start 5, announce");
  }
  std::string down(Child child) { return shown(supervision.went_down(child, now)); }
  std::string after(base::Duration pause) {
    now += pause;
    return shown(supervision.time_passed(now));
  }

  base::TimePoint now{1h};
  Supervision supervision;
};

} // namespace

TEST_CASE("who goes down is started again after a pause that doubles up to its bound") {
  SupervisionWorld world;
  CHECK(world.down(sampler) == "wake 10");
  CHECK(world.after(9ms).empty());
  CHECK(world.after(1ms) == "start 4, announce");
  CHECK(world.after(1ms).empty());
  CHECK(world.down(sampler) == "wake 20");
  CHECK(world.after(20ms) == "start 4, announce");
  CHECK(world.down(sampler) == "wake 40");
  CHECK(world.after(40ms) == "start 4, announce");
  CHECK(world.down(sampler) == "end all"); // the fourth time
}

TEST_CASE("who ran for long has a fresh count and a short pause again") {
  SupervisionWorld world;
  for (int death = 0; death < 10; ++death) {
    CHECK(world.after(10s).empty());
    CHECK(world.down(kv_cache) == "wake 10");
    CHECK(world.after(10ms) == "start 5, announce");
  }
}

TEST_CASE("who may be started again any number of times is") {
  FaultOptions any_number = faults();
  any_number.restarts_max = std::numeric_limits<int>::max();
  Supervision supervision({{Role::facade, Role::sampler}, any_number});
  base::TimePoint now{1h};
  supervision.start(now);
  for (int death = 0; death < 10; ++death) {
    CHECK(shown(supervision.went_down(1, now)).starts_with("wake "));
    now += 50ms;
    CHECK(shown(supervision.time_passed(now)) == "start 1, announce");
  }
}

TEST_CASE("those whose pauses have passed start together, and everybody hears of it once") {
  SupervisionWorld world;
  CHECK(world.down(target) == "wake 10");
  CHECK(world.down(scheduler) == "wake 10");
  CHECK(world.after(10ms) == "start 1, start 3, announce");
}

TEST_CASE("the facade's end is the engine's") {
  SupervisionWorld world;
  CHECK(world.down(facade) == "end all");
}

TEST_CASE("a draft that goes is missed at once, and disabled where it keeps failing") {
  SupervisionWorld world;
  for (const auto& [wake, pause] :
       {std::pair{"wake 10", 10ms}, {"wake 20", 20ms}, {"wake 40", 40ms}}) {
    CHECK(world.down(draft) == std::string("announce, ") + wake);
    CHECK(world.after(pause) == "start 2, announce");
  }
  CHECK(world.down(draft) == "announce, disable");
  CHECK(world.after(1h).empty());
}

TEST_CASE("a draft that is not to be used again is ended once, and does not come back") {
  SupervisionWorld world;
  SUBCASE("while it runs") {
    CHECK(shown(world.supervision.disable(draft)) == "disable, end 2");
    CHECK(shown(world.supervision.disable(draft)).empty());
    CHECK(world.down(draft) == "announce");
  }
  SUBCASE("while it is down") {
    CHECK(world.down(draft) == "announce, wake 10");
    CHECK(shown(world.supervision.disable(draft)) == "disable");
  }
  CHECK(world.after(1h).empty());
}

TEST_CASE("a target that keeps failing moves, and nobody begins there before all have let go") {
  SupervisionWorld world(true);
  for (int death = 0; death < 3; ++death) {
    world.down(target);
    CHECK(world.after(50ms) == "start 3, announce");
  }
  CHECK(world.down(target) == "move, end 1, end 2, end 5, wake 10");
  CHECK(world.after(10ms).empty());
  CHECK(world.down(kv_cache) == "wake 10");
  CHECK(world.down(draft) == "announce, wake 10");
  CHECK(world.after(10ms).empty()); // the scheduler is not gone yet
  CHECK(world.down(scheduler) == "wake 10");
  CHECK(world.after(10ms) == "start 1, start 2, start 3, start 5, announce");
  CHECK(shown(world.supervision.move_target()).empty()); // there is no other standby
}

TEST_CASE("who had to wait for a draft that is disabled begins when that is down") {
  SupervisionWorld world(true);
  CHECK(shown(world.supervision.move_target()) == "move, end 1, end 2, end 3, end 5");
  CHECK(shown(world.supervision.disable(draft)) == "disable, end 2");
  for (const Child child : {scheduler, target, kv_cache})
    CHECK(world.down(child) == "wake 10");
  CHECK(world.after(10ms).empty());
  CHECK(world.down(draft) == "announce, start 1, start 3, start 5, announce");
}

TEST_CASE("a stage on another machine comes back for ever, and the caches begin anew with it") {
  SupervisionWorld world;
  world.supervision = Supervision(
      {{Role::facade, Role::target, Role::target, Role::kv_cache}, faults(), false, {2}});
  world.supervision.start(world.now);
  for (int time = 0; time < 10; ++time) {
    CHECK(world.down(2).starts_with("end 3, wake "));
    CHECK(world.after(50ms).empty()); // the one that is told to end is waited for
    CHECK(world.down(3).starts_with("wake "));
    CHECK(world.after(50ms) == "start 2, start 3, announce");
  }
  CHECK(world.down(1) == "wake 10"); // a stage that is here leaves what is cached alone
}
