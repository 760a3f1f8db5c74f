#include "messages/virtual_time.hpp"

#include <algorithm>
#include <utility>

namespace paceline::messages {
namespace {

/// What a system is given to settle in when it is destroyed.
constexpr std::size_t last_steps = 100'000;

} // namespace

VirtualSystem::VirtualSystem(std::uint64_t seed, VirtualTimeOptions options)
    : options_(options), random_(seed), system_(configure(config_)),
      coordinator_(dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())) {}

// CAF would wait for actors that nobody runs any more, and run timers for ever that are set again
// whenever they fire.
VirtualSystem::~VirtualSystem() {
  system_.await_actors_before_shutdown(false);
  cancel_timers();
  for (std::size_t n = 0; n < last_steps && coordinator_.has_job(); ++n)
    run_job();
  for (caf::resumable* job : std::exchange(coordinator_.jobs, {}))
    caf::scheduler::abstract_coordinator::cleanup_and_release(job);
  cancel_timers();
}

caf::actor_system_config& VirtualSystem::configure(caf::actor_system_config& config) {
  config.set("scheduler.policy", caf::atom("testing"));
  config.set("logger.inline-output", true);
  return config;
}

caf::detail::test_actor_clock& VirtualSystem::clock() const {
  return coordinator_.clock();
}

base::TimePoint VirtualSystem::now() const {
  return clock().now();
}

bool VirtualSystem::step() {
  if (!coordinator_.has_job() || timer_goes_first())
    return coordinator_.trigger_timeout();
  run_job();
  return true;
}

bool VirtualSystem::timer_goes_first() {
  if (!options_.shuffle || !coordinator_.has_pending_timeout())
    return false;
  const base::TimePoint due = clock().schedule().begin()->first;
  if (due <= now())
    return random_() % (coordinator_.jobs.size() + 1) == 0;
  const double chance = double(random_() >> 11) * 0x1p-53;
  return due - now() <= options_.early_timer_reach && chance < options_.early_timer_probability;
}

void VirtualSystem::run_job() {
  auto& jobs = coordinator_.jobs;
  if (options_.shuffle)
    std::swap(jobs.front(), jobs[random_() % jobs.size()]);
  const caf::resumable* job = jobs.front();
  coordinator_.try_run_once();
  // An actor with more mail is put back in front; let the others have their turn.
  if (!jobs.empty() && jobs.front() == job)
    std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
}

std::size_t VirtualSystem::run(std::size_t limit) {
  std::size_t steps = 0;
  while (steps < limit && step())
    ++steps;
  return steps;
}

bool VirtualSystem::run_until(const std::function<bool()>& reached, std::size_t limit) {
  std::size_t steps = 0;
  while (!reached()) {
    if (steps++ == limit || !step())
      return false;
  }
  return true;
}

void VirtualSystem::cancel_timers() {
  clock().cancel_all();
}

} // namespace paceline::messages
