// Foresees what the engines of one group do that work side by side, each on several requests.
#pragma once

#include "placement/cost.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace paceline::placement {

/// The engines of a group's models share its devices: those that are busy get on alike, each slower
/// by how much more is asked of the slowest stage than it can do, and by the devices' contention.
/// The requests of an engine are first come first served up to as many as it works on at once, and
/// these get on alike (processor sharing), at the pace of their number. So newcomers slow down what
/// is under way. Times are seconds of the caller's clock. Threads: one at a time.
class Engines {
public:
  explicit Engines(double contention) : contention_(contention) {}

  /// Adds the engine of a model.
  void add(int model, const Pace& pace);

  struct End {
    std::uint64_t number;
    double seconds;
  };
  /// Lets time pass, and requests end as they are foreseen to; tells each one.
  void run_until(double now, std::vector<End>& ended);
  /// Lets time pass where the caller will say what ended: what should have ended and has not ends
  /// now at the earliest.
  void hold_until(double now);
  /// Notes that a request is over, however it ended.
  void end(std::uint64_t number);

  /// What would become of a request.
  struct Prospect {
    double finish;
    bool harmful; ///< Another request, which is in time as it is, would be late.
  };
  /// Foresees a request that is sent now, if no other one follows.
  Prospect foresee(int model);
  /// Sends a request. number: greater than all before. deadline: infinite: none.
  void send(int model, std::uint64_t number, double deadline);
  const Pace& pace(int model) const { return engines_[index_of(model)].pace; }

  /// Returns when all requests will have ended; now, if there are none.
  double idle_at() const { return look_ahead({}).idle; }
  /// Takes over the requests, also of models that were taken away; those end here.
  void go_on_from(const Engines& before);

private:
  /// Progress counts requests: a request that begins when its engine's progress is 3.2 ends when
  /// that is 4.2.
  struct Request {
    std::uint64_t number;
    double until; ///< Progress at its end.
    double deadline;
  };
  struct Engine {
    int model;
    Pace pace;
    double progress = 0; ///< 0 while it is idle, so that idle engines are alike to the last bit.
    std::deque<Request> open = {}; ///< In the order of their ends.

    std::size_t under_way(std::size_t first) const;
    void add(std::uint64_t number, double deadline);
    void line_up();
  };
  /// The state of an engine while time is let pass.
  struct Position {
    double progress;
    std::size_t first; ///< The first request that is open.
  };
  struct Step {
    std::size_t engine;
    std::size_t request;
    double seconds;
  };
  struct Outlook {
    double finish = 0;    ///< When the last request of the engine that was asked for ends.
    double idle = 0;      ///< When the last one of all does.
    std::size_t late = 0; ///< Other requests that miss their deadlines.
  };
  std::size_t index_of(int model) const;
  std::vector<Position> positions() const;
  double slowdown(const std::vector<Position>& at) const;
  void pass(std::vector<Position>& at, double seconds, double slowdown) const;
  std::optional<Step> step(std::vector<Position>& at, double most) const;
  Outlook look_ahead(std::optional<std::size_t> newest) const;

  double contention_;
  double now_ = 0;
  std::vector<Engine> engines_;
};

} // namespace paceline::placement
