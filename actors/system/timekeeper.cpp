#include "actors/system/timekeeper.hpp"

#include <caf/detail/test_actor_clock.hpp>

#include <algorithm>

namespace paceline::actors {
namespace {

/// Wraps a callback, which is called once, as a message, which has to be copyable.
struct Callback {
  std::shared_ptr<const std::function<void()>> then;
};

caf::behavior call_back(caf::event_based_actor*, const caf::unit_t&) {
  return {[](const Callback& callback) { (*callback.then)(); }};
}

} // namespace
} // namespace paceline::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(paceline::actors::Callback)

namespace paceline::actors {

// The actor is hidden, so the system does not wait for it when it shuts down. The argument is there
// because CAF 0.17 dereferences a null pointer for a function without any.
ActorTimekeeper::ActorTimekeeper(caf::actor_system& system)
    : system_(system), caller_(system.spawn<caf::hidden>(call_back, caf::unit)),
      virtual_(dynamic_cast<caf::detail::test_actor_clock*>(&system.clock()) != nullptr) {}

ActorTimekeeper::~ActorTimekeeper() {
  stop();
}

base::TimePoint ActorTimekeeper::now() const {
  const std::lock_guard lock(mutex_);
  if (caller_)
    return system_.clock().now();
  return virtual_ ? stopped_ : base::TimePoint(std::chrono::steady_clock::now());
}

void ActorTimekeeper::after(base::Duration delay, std::function<void()> then) {
  Callback callback{std::make_shared<const std::function<void()>>(std::move(then))};
  const std::lock_guard lock(mutex_);
  if (caller_)
    caf::delayed_anon_send(caller_, std::max(delay, base::Duration::zero()), std::move(callback));
}

void ActorTimekeeper::stop() {
  const std::lock_guard lock(mutex_);
  if (!caller_)
    return;
  stopped_ = system_.clock().now();
  caf::anon_send_exit(caller_, caf::exit_reason::kill);
  caller_ = nullptr;
}

} // namespace paceline::actors
