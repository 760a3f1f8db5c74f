// A lane with a thread of its own, which takes steps from a queue and runs their pieces.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/lane.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace paceline::gpu {

/// The runner of a lane's pieces. All members but the destructor and `rouse` are called on the
/// lane's own thread.
class Executor {
public:
  virtual ~Executor() = default;
  /// Tells that steps will come soon; returns whether the thread is to be awake then. Threads: any.
  virtual bool rouse() { return false; }
  virtual void enter() = 0;                        ///< Called once, before anything else.
  virtual void begin_step(const Step& /*step*/) {} ///< Called first for each step.
  virtual void end_step() {}                       ///< Called when the step has retired.
  /// Returns whether a piece may be launched while the one before it runs.
  virtual bool queues() const { return false; }
  /// Calls Step::run on every rank. work: the piece's.
  virtual void launch(Step& step, const Work& work) = 0;
  /// Waits for the piece that was launched first; its results are there when this returns.
  virtual void finish() {}
  /// Ends or waits for all that was launched; nobody asks for its results.
  virtual void abandon() noexcept {}
};

struct ThreadLaneOptions {
  std::string name;
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<base::Trace> trace; ///< May be null.
};

/// Starts the lane. Throws std::system_error if no thread can be started.
std::unique_ptr<Lane> make_thread_lane(ThreadLaneOptions options,
                                       std::unique_ptr<Executor> executor);

/// A pause between two polls: it spins at first, then sleeps for times that grow up to
/// limits::waiting_pause_max.
class Pause {
public:
  Pause() = default;
  /// likely: how long what is waited for is likely to take from now on, where that is known (above
  /// zero). The first pause sleeps until shortly before, and those around that time spin.
  explicit Pause(std::chrono::steady_clock::duration likely);
  void rest();

private:
  std::chrono::steady_clock::time_point spin_from_{};
  std::chrono::steady_clock::time_point spin_until_{};
  int asked_ = 0;
  std::chrono::microseconds sleep_{2};
};

/// Returns the arguments of a piece's span in a trace.
std::string trace_args(const Work& work);
/// Returns the exception in flight as an error. Must be called inside a catch block.
Error current_error();

} // namespace paceline::gpu
