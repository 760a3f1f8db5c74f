// The clock of an actor system, for code that knows no actors.
#pragma once

#include "base/clock.hpp"
#include "messages/caf.hpp"

#include <mutex>

namespace paceline::actors {

/// The clock, real or virtual like the system's. Callbacks run one at a time in an actor of its
/// own, on a thread of the system's, in the order in which they are due; they must not block or
/// throw. Threads: any (with a VirtualSystem: its thread).
class ActorTimekeeper final : public base::Timekeeper {
public:
  explicit ActorTimekeeper(caf::actor_system& system);
  /// Calls `stop`.
  ~ActorTimekeeper() override;
  ActorTimekeeper(const ActorTimekeeper&) = delete;
  ActorTimekeeper& operator=(const ActorTimekeeper&) = delete;

  base::TimePoint now() const override;
  /// A delay of zero or less calls back as soon as possible, but never from inside `after`.
  void after(base::Duration delay, std::function<void()> then) override;

  /// Drops the system: no callback begins afterwards (one that has begun goes on), and `after`
  /// drops its callback. A real clock goes on, a virtual one stands still. To be called before the
  /// system is destroyed, even if others still hold the timekeeper.
  void stop();

private:
  caf::actor_system& system_;
  mutable std::mutex mutex_; // Guards all members below, and the system's life against `stop`.
  caf::actor caller_;        // Null once stopped.
  base::TimePoint stopped_;
  bool virtual_ = false;
};

} // namespace paceline::actors
