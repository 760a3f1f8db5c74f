// CAF on one thread with a clock that jumps, for simulations, planning, and every actor's tests.
// This knows CAF's version, like messages/caf.hpp: it drives 0.17's deterministic scheduler.
#pragma once

#include "base/clock.hpp"
#include "messages/caf.hpp"

#include <caf/scheduler/test_coordinator.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>

namespace paceline::actors {

/// A message whose receiver has its turn.
struct Arrival {
  caf::strong_actor_ptr receiver;
  const char* name = ""; ///< Name of the receiver.
  const caf::type_erased_tuple& content;
};

/// The fate of a message.
struct Fate {
  enum class Kind {
    deliver,
    again,      ///< Delivered, and once more after `delay`.
    later,      ///< Delivered after `delay`: messages behind it overtake it.
    hold_up,    ///< The receiver's thread stands still for `delay`: all its messages wait.
    kill,       ///< The receiver dies before it handles it.
    kill_after, ///< The receiver handles it, and dies.
  } kind = Kind::deliver;
  base::Duration delay{};
};

/// The order of messages and timers. By default it is exact: messages come before timers, runnable
/// actors take turns, and no seed is consulted.
struct VirtualTimeOptions {
  /// Whether the seed chooses the runnable actor that goes next, or a timer that is due instead.
  bool shuffle = false;
  /// Probability that the next timer fires before pending messages although it is not due, as if
  /// the messages had taken some time. Needs `shuffle`.
  double early_timer_probability = 0.0;
  /// Timers further away than this never fire early.
  base::Duration early_timer_reach = std::chrono::seconds(1);
};

/// An actor system whose messages and timers are run by `step`, one at a time, by its owner. The
/// order is a function of the seed. Each actor's mailbox stays in order. Actors that are left when
/// it is destroyed are not waited for, and their timers never fire; objects that refer to them must
/// be gone by then, and actors that refer to each other have to be ended first. Threads: all
/// members, and all that sends to its actors, on one thread.
class VirtualSystem {
public:
  /// log: gets the errors that actors die of.
  explicit VirtualSystem(std::uint64_t seed, VirtualTimeOptions options = {}, base::Log log = {});
  ~VirtualSystem();
  VirtualSystem(const VirtualSystem&) = delete;
  VirtualSystem& operator=(const VirtualSystem&) = delete;

  caf::actor_system& system() { return system_; }
  base::TimePoint now() const;

  /// Runs one message of one actor, or one timer (which moves the clock). False: silence.
  bool step();
  /// Steps until silence, at most `limit` times, and returns the number of steps.
  std::size_t run(std::size_t limit = std::numeric_limits<std::size_t>::max());
  /// Steps until `reached()`; false: silence, or `limit` steps, came first.
  bool run_until(const std::function<bool()>& reached,
                 std::size_t limit = std::numeric_limits<std::size_t>::max());
  /// Does the same up to a point of time: if nothing is left to do before it, the clock leaps
  /// there.
  bool run_until(const std::function<bool()>& reached, base::TimePoint until);
  /// decide: asked before every message except answers, also for those that it delayed before;
  /// empty: all are delivered.
  void decide_fates(std::function<Fate(const Arrival&)> decide) { decide_ = std::move(decide); }
  /// Drops every timer that is pending.
  void cancel_timers();
  /// Lets the clock leap ahead; timers that are due by then fire at once.
  void leap(base::Duration by);

private:
  static caf::actor_system_config& configure(messages::SystemConfig& config, base::Log log);
  caf::detail::test_actor_clock& clock() const;
  bool timer_goes_first();
  bool choose_job();
  bool held_up(const caf::resumable* job);
  void run_job();
  Fate fate_of(caf::scheduled_actor& actor);
  static caf::mailbox_element_ptr take_next(caf::scheduled_actor& actor);

  VirtualTimeOptions options_;
  std::mt19937_64 random_;
  messages::SystemConfig config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& coordinator_;
  std::function<Fate(const Arrival&)> decide_;
  std::map<caf::actor_id, base::TimePoint> held_up_; ///< Ends of delays; empty without faults.
};

} // namespace paceline::actors
