// A lane with a thread of its own, which takes steps from a queue and has their pieces run.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/lane.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace paceline::gpu {

/// What runs a lane's pieces. Threads: all members but the destructor, `has_work` and `rouse` on
/// the lane's own.
class Executor {
public:
  virtual ~Executor() = default;
  /// The lane has steps, or has none left. Threads: any, one after the other.
  virtual void has_work(bool /*some*/) {}
  /// While it has none: another lane has work for the core of the lane's thread.
  virtual bool crowded() const { return false; }
  /// The lane is about to have steps: whether its thread is to be awake then. Threads: any.
  virtual bool rouse() { return false; }
  virtual void enter() = 0;                        ///< Once, before anything else.
  virtual void begin_step(const Step& /*step*/) {} ///< Before all else of a step,
  virtual void end_step() {}                       ///< and when it has retired.
  /// Whether a piece may be launched while the one before it is at work.
  virtual bool queues() const { return false; }
  /// Step::run on every rank. work: the piece's.
  virtual void launch(Step& step, const Work& work) = 0;
  /// Waits for the piece that was launched first; its results are there when this returns.
  virtual void finish() {}
  /// Nothing that was launched is at work when this returns, and nobody asks for its results.
  virtual void abandon() noexcept {}
};

struct ThreadLaneOptions {
  std::string name;
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<base::Trace> trace; ///< May be null.
};

/// Throws std::system_error where there is no thread to be had.
std::unique_ptr<Lane> make_thread_lane(ThreadLaneOptions options,
                                       std::unique_ptr<Executor> executor);

/// Between two questions to somebody who is not ready: spinning first, then asleep for pauses that
/// grow up to limits::waiting_pause_max.
class Pause {
public:
  void rest();

private:
  int asked_ = 0;
  std::chrono::microseconds sleep_{2};
};

/// The arguments of a piece's span in a trace.
std::string trace_args(const Work& work);
/// The exception in flight as an error. Call inside a catch block.
Error current_error();

} // namespace paceline::gpu
