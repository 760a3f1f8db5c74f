// Decides who answers a request while models come and go.
#pragma once

#include "placement/dispatcher.hpp"
#include "placement/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace paceline::placement {

/// The simulator's dispatcher, told what really happens, with a memory of what was asked for. It
/// alone knows how long the groups' queues are; it orders them and bounds no number. Times are
/// seconds of one clock, which the caller reads. It knows no actor. Threads: one at a time.
///
/// A group's queue is as long as the plan expects of the requests sent there. When the oldest
/// request of a group ends, what is behind it moves by as much as that one was early or late; a
/// request that is overdue moves the queue as time passes; and a group without requests is idle. So
/// an engine that is done sooner gets more. Where engines work side by side, each that is over
/// makes the others faster, and what is overdue is expected at every moment.
class Controller {
public:
  /// Copies what it needs.
  Controller(Problem problem, const Placement& placement);

  /// A request that a group works on.
  struct Ticket {
    int group = -1;
    std::uint64_t number = 0;
  };
  struct Routed {
    Dispatch dispatch;
    Ticket ticket; ///< Given for an accepted request, to be passed to `end` once.
  };
  /// Sends a request to a group. now: not before the last call's. deadline: infinite: none.
  Routed begin(int model, double now, double deadline);
  /// Notes that the request is over, however it ended.
  void end(const Ticket& ticket, double now);

  /// Takes in that models were loaded or unloaded, or that there are more of them. Groups and
  /// models keep their numbers; more may follow. Queues stay.
  void change(Problem problem, const Placement& placement);

  const Problem& problem() const { return problem_; }
  /// Returns how many requests the group works on.
  std::size_t open(int group) const { return queues_[std::size_t(group)].open.size(); }
  /// Returns the seconds until a group is expected to be done.
  double queue_seconds(int group, double now) const;

  /// Notes that a request came, for `observed`.
  void note(int model, double now);
  /// Returns what came in the last `seconds`, counted from their beginning.
  Workload observed(double now, double seconds) const;

private:
  struct Open {
    std::uint64_t number;
    int model;
    double finish; ///< Time as expected at first, without what the queue has moved by since.
  };
  struct Queue {
    std::deque<Open> open; ///< The oldest first.
    double moved = 0;      ///< Seconds, summed up.
  };
  void move(int group, double seconds);
  void note_overdue(double now);
  void go_on_from(const Dispatcher& before);

  Problem problem_;
  Dispatcher dispatcher_;
  std::vector<Queue> queues_; ///< One queue for each group.
  std::deque<Arrival> arrivals_;
};

} // namespace paceline::placement
