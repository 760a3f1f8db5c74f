#include "actors/system/runtime.hpp"

#include "actors/system/turns.hpp"
#include "base/short_turns.hpp"

#include <caf/scheduler/coordinator.hpp>

namespace paceline::actors {
namespace {

/// Threads for actors, which only pass messages on; devices work on lanes. `stealing`, CAF's
/// default, wakes an idle actor five to ten times later than a queue that all threads share.
constexpr std::size_t actor_threads = 1;

} // namespace

Runtime::Runtime(std::optional<std::uint64_t> virtual_seed, const Extend& extend, base::Log log) {
  if (virtual_seed) {
    virtual_ = std::make_unique<VirtualSystem>(*virtual_seed, VirtualTimeOptions(), std::move(log));
  } else {
    config_.log = std::move(log);
    config_.load<caf::scheduler::coordinator<TurnsInOrder>>();
    config_.set("scheduler.max-threads", actor_threads);
    if (extend)
      extend(config_);
    apart_from_caller([this] {
      base::take_short_turns(); // The system's threads inherit them.
      real_ = std::make_unique<caf::actor_system>(config_);
    });
  }
  apart_from_caller([this] { time_ = std::make_shared<ActorTimekeeper>(system()); });
}

Runtime::~Runtime() {
  await_actors();
}

void Runtime::await_actors() {
  if (virtual_)
    virtual_->run(1'000'000);
  time_->stop();
  if (real_)
    real_->await_all_actors_done();
}

bool Runtime::advance_until(const std::function<bool()>& reached) {
  return virtual_ ? virtual_->run_until(reached) : reached();
}

bool Runtime::advance_until(const std::function<bool()>& reached, base::TimePoint until) {
  return virtual_ ? virtual_->run_until(reached, until) : reached();
}

} // namespace paceline::actors
