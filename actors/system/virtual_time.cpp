#include "actors/system/virtual_time.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {
namespace {

/// Most steps in which a system may settle when it is destroyed.
constexpr std::size_t last_steps = 100'000;

} // namespace

VirtualSystem::VirtualSystem(std::uint64_t seed, VirtualTimeOptions options, base::Log log)
    : options_(options), random_(seed), system_(configure(config_, std::move(log))),
      coordinator_(dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())) {}

// CAF would wait for actors that nobody runs any more, and would for ever run timers that are set
// again whenever they fire.
VirtualSystem::~VirtualSystem() {
  system_.await_actors_before_shutdown(false);
  decide_ = nullptr;
  cancel_timers();
  for (std::size_t n = 0; n < last_steps && coordinator_.has_job(); ++n)
    run_job();
  for (caf::resumable* job : std::exchange(coordinator_.jobs, {}))
    caf::scheduler::abstract_coordinator::cleanup_and_release(job);
  cancel_timers();
}

caf::actor_system_config& VirtualSystem::configure(messages::SystemConfig& config, base::Log log) {
  config.log = std::move(log);
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
  if (!choose_job()) {
    if (coordinator_.trigger_timeout())
      return true;
    held_up_.clear(); // Nothing else is left to wait for.
  }
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

/// Brings the job that goes next to the front. False: all are held up.
bool VirtualSystem::choose_job() {
  auto& jobs = coordinator_.jobs;
  if (options_.shuffle)
    std::swap(jobs.front(), jobs[random_() % jobs.size()]);
  if (held_up_.empty())
    return true;
  const auto free = std::find_if(jobs.begin(), jobs.end(),
                                 [this](const caf::resumable* job) { return !held_up(job); });
  if (free == jobs.end())
    return false;
  std::iter_swap(jobs.begin(), free);
  return true;
}

bool VirtualSystem::held_up(const caf::resumable* job) {
  const auto* actor = dynamic_cast<const caf::scheduled_actor*>(job);
  const auto at = actor ? held_up_.find(actor->id()) : held_up_.end();
  if (at == held_up_.end())
    return false;
  if (now() < at->second)
    return true;
  held_up_.erase(at);
  return false;
}

void VirtualSystem::run_job() {
  auto& jobs = coordinator_.jobs;
  const caf::resumable* job = jobs.front();
  caf::strong_actor_ptr dies_after;
  if (auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs.front()); actor && decide_) {
    const Fate fate = fate_of(*actor);
    if (fate.kind == Fate::Kind::hold_up)
      return;
    if (fate.kind == Fate::Kind::kill_after)
      dies_after = caf::actor_cast<caf::strong_actor_ptr>(actor);
  }
  coordinator_.try_run_once();
  if (dies_after)
    caf::anon_send_exit(dies_after, caf::exit_reason::kill);
  // An actor with more mail is put back in front; let the others have their turn.
  if (!jobs.empty() && jobs.front() == job)
    std::rotate(jobs.begin(), jobs.begin() + 1, jobs.end());
}

/// Returns the fate of the actor's next message, and carries out the part of it that comes before
/// the message is handled.
Fate VirtualSystem::fate_of(caf::scheduled_actor& actor) {
  caf::mailbox_element* next = actor.mailbox().peek();
  if (!next || next->content().empty() || next->mid.is_response())
    return {};
  const auto receiver = caf::actor_cast<caf::strong_actor_ptr>(&actor);
  const Fate fate = decide_({receiver, actor.name(), next->content()});
  switch (fate.kind) {
  case Fate::Kind::deliver:
  case Fate::Kind::kill_after: break;
  case Fate::Kind::hold_up: held_up_[actor.id()] = now() + fate.delay; break;
  case Fate::Kind::kill: // The message is urgent, hence handled before `next`.
    caf::anon_send_exit(receiver, caf::exit_reason::kill);
    break;
  case Fate::Kind::again:
    clock().schedule_message(now() + fate.delay, receiver,
                             caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                                       next->copy_content_to_message()));
    break;
  case Fate::Kind::later: // The actor finds an empty mailbox, or the message behind.
    clock().schedule_message(now() + fate.delay, receiver, take_next(actor));
    break;
  }
  return fate;
}

caf::mailbox_element_ptr VirtualSystem::take_next(caf::scheduled_actor& actor) {
  auto& mail = actor.mailbox().queue().queues();
  auto& urgent = std::get<caf::scheduled_actor::urgent_queue_index>(mail);
  auto& normal = std::get<caf::scheduled_actor::normal_queue_index>(mail);
  return urgent.empty() ? normal.take_front() : urgent.take_front();
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

bool VirtualSystem::run_until(const std::function<bool()>& reached, base::TimePoint until) {
  while (!reached()) {
    const auto& timers = clock().schedule();
    if (!coordinator_.has_job() && (timers.empty() || timers.begin()->first > until)) {
      if (now() < until)
        leap(until - now());
      return false;
    }
    step();
  }
  return true;
}

void VirtualSystem::cancel_timers() {
  clock().cancel_all();
}

void VirtualSystem::leap(base::Duration by) {
  clock().advance_time(by);
}

} // namespace paceline::actors
