// Decides which group answers a request: the policy of the simulator and of whoever serves.
#pragma once

#include "placement/engines.hpp"
#include "placement/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::placement {

/// A dispatch says what becomes of a request.
struct Dispatch {
  enum class Outcome { accepted, not_placed, late };
  Outcome outcome = Outcome::not_placed;
  int group = -1; ///< Group that answers it, or would have been the earliest.
  /// Time when it is done, or would have been, on the caller's clock. Where engines work side by
  /// side this is the time if no other request follows.
  double finish = 0;
  double slowest_stage = 0; ///< Seconds for which the group can begin no other, at a steady pace.
  std::uint64_t number = 0; ///< Of an accepted request; they grow.
};

/// Sends each request to the group with the shortest expected queue: the one that would be done
/// with it first, by what was sent there before. Groups are pipelines, first come first served, or
/// engines side by side (`side_by_side`), whose requests slow each other. A request that would be
/// late, or make another one late, is refused as it comes (Li et al. 2023, section 4.3). It alone
/// compares groups, and so knows that none is in time for the model's objective, which is the
/// operator's; a request's own deadline is the engine's matter (scheduling/deadlines.hpp). The
/// dispatcher knows no clock and no actor. Threads: one at a time.
class Dispatcher {
public:
  /// Copies what it needs.
  Dispatcher(const Problem& problem, const Placement& placement);

  /// Sends a request. now: not before the last call's; of engines side by side that of the last
  /// call of `run_until` or `hold_until`. deadline: on the same clock; infinite: none.
  Dispatch dispatch(int model, double now, double deadline);

  /// Whether groups have engines side by side, to be told of time.
  bool side_by_side() const { return side_by_side_; }
  /// Lets time pass in which requests end as expected. Returns their ends, the
  /// first one first.
  std::vector<Engines::End> run_until(double now);
  /// Lets time pass in which only those requests end of which `end` tells.
  void hold_until(double now);
  void end(int group, std::uint64_t number);
  /// Sends a request to a group that has the model and engines side by side. number: of a dispatch
  /// before, greater than all that are there.
  void resend(int group, int model, std::uint64_t number);

  std::size_t groups() const { return begin_.size() - 1; }
  /// Returns when a group is done with all that was sent there.
  double idle_at(int group) const;
  /// Returns when each stage of a group that answers one request at a time is done with all that
  /// was sent there; behind an accepted request, when it is done with that request.
  std::span<const double> busy_until(int group) const;
  /// Returns the seconds that a request of the model takes in each stage of a group that hosts it.
  std::span<const double> stages(int model, int group) const;
  /// Makes groups as busy as they were; `before` has the same ones, and maybe fewer. Where only one
  /// of both answers side by side they stay idle.
  void go_on_from(const Dispatcher& before);
  /// Makes the group, which answers one request at a time, as busy as if it had work until then.
  void occupy(int group, double until);
  /// Notes that such a group has nothing left to do.
  void release(int group, double now);
  /// Makes what was sent to such a group take so much longer than expected; below 0: less.
  void shift(int group, double seconds);

private:
  struct Host {
    int group;
    std::size_t begin; ///< Begin of its stages in busy_until_.
    std::size_t end;
    std::size_t costs; ///< Begin of the model's seconds in seconds_.
    double slowest;
  };
  std::span<double> stages_of(int group);
  double finish(const Host& host, double now) const;
  void send(const Host& host, double now);
  Dispatch dispatch_side_by_side(int model, double deadline);

  bool side_by_side_;
  std::uint64_t number_ = 0;
  std::vector<std::vector<Host>> hosts_; ///< The hosts of each model.
  std::vector<std::size_t> begin_;       ///< Begin of each group's stages, and the end.
  std::vector<double> busy_until_;
  std::vector<double> seconds_;
  std::vector<Engines> engines_; ///< Of each group, where they work side by side.
};

} // namespace paceline::placement
