#include "gpu/thread_lane.hpp"

#include "gpu/limits.hpp"
#include "gpu/wait.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

namespace paceline::gpu {
namespace {

// The queue and the thread that empties it. The thread shares ownership, because the end of a step
// may drop the last owner of the lane while the thread still uses this state.
class LaneState : public std::enable_shared_from_this<LaneState> {
public:
  LaneState(ThreadLaneOptions options, std::unique_ptr<Executor> executor)
      : options_(std::move(options)), executor_(std::move(executor)) {}

  void start() {
    thread_ = std::thread([self = shared_from_this()] { self->serve(); });
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    signal();
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
  }

  bool submit(std::shared_ptr<Step> step) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_ || queue_.size() >= limits::lane_queue_max)
        return false;
      queue_.push_back(std::move(step));
    }
    signal();
    return true;
  }

  void rouse() {
    if (executor_->rouse())
      signal_.rouse(limits::lane_roused_spin);
  }

  const std::string& name() const { return options_.name; }

private:
  void signal() {
    signal_.add(1);
    signal_.wake();
  }

  std::shared_ptr<Step> next() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty())
      return nullptr;
    std::shared_ptr<Step> step = std::move(queue_.front());
    queue_.pop_front();
    return step;
  }

  void serve() {
    executor_->enter();
    for (;;) {
      const std::uint32_t seen = signal_.load();
      if (std::shared_ptr<Step> step = next())
        execute(*step);
      else if (closing_)
        return;
      else
        signal_.wait_change(seen, limits::lane_spin);
    }
  }

  void execute(Step& step) {
    executor_->begin_step(step);
    Retirement how;
    how.begin = how.end = options_.time->now();
    try {
      run_pieces(step, how);
    } catch (...) {
      executor_->abandon();
      how.error = current_error();
      how.end = options_.time->now();
    }
    how.completed = !how.error;
    try {
      step.retire(how);
    } catch (...) { // The step has retired; nobody is left to tell.
    }
    executor_->end_step();
  }

  void run_pieces(Step& step, Retirement& how) {
    bool begun = false;
    Pause pause;
    while (!closing_) {
      const base::TimePoint begin = options_.time->now();
      const Step::Next next = step.prepare(begin);
      if (next == Step::Next::done)
        return;
      if (next == Step::Next::waiting) {
        pause.rest();
        continue;
      }
      pause = {};
      if (!begun)
        how.begin = begin;
      begun = true;
      run_row(step, how, begin);
    }
    how.error = Error{ErrorCode::unavailable, "the lane " + options_.name + " was closed", {}};
  }

  // Runs the piece that was prepared at `begin`, and those that the step prepares behind it. A
  // piece that stood ready begins when the one before it ends.
  void run_row(Step& step, Retirement& how, base::TimePoint begin) {
    Work work = step.work();
    executor_->launch(step, work);
    for (;;) {
      std::optional<Work> behind;
      if (executor_->queues() && !closing_ && step.prepare_behind(options_.time->now())) {
        behind = step.work();
        executor_->launch(step, *behind);
      }
      executor_->finish();
      how.end = options_.time->now();
      step.complete(how.end);
      how.busy += how.end - begin;
      if (options_.trace && options_.trace->wanted())
        options_.trace->lane_span(options_.name, step.name(), begin, how.end, trace_args(work));
      if (!behind)
        return;
      work = *behind;
      begin = how.end;
    }
  }

  const ThreadLaneOptions options_;
  const std::unique_ptr<Executor> executor_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Step>> queue_;
  std::atomic<bool> closing_{false}; // Set under the mutex, so that no step is accepted afterwards.
  WaitWord signal_;
  std::thread thread_;
};

class ThreadLane final : public Lane {
public:
  explicit ThreadLane(std::shared_ptr<LaneState> state) : state_(std::move(state)) {}
  ~ThreadLane() override { state_->close(); }
  bool submit(std::shared_ptr<Step> step) override { return state_->submit(std::move(step)); }
  void rouse() override { state_->rouse(); }
  const std::string& name() const override { return state_->name(); }

private:
  std::shared_ptr<LaneState> state_;
};

} // namespace

std::unique_ptr<Lane> make_thread_lane(ThreadLaneOptions options,
                                       std::unique_ptr<Executor> executor) {
  auto state = std::make_shared<LaneState>(std::move(options), std::move(executor));
  state->start();
  return std::make_unique<ThreadLane>(std::move(state));
}

Pause::Pause(std::chrono::steady_clock::duration likely) {
  if (likely <= std::chrono::steady_clock::duration::zero())
    return;
  const auto end = std::chrono::steady_clock::now() + likely;
  spin_from_ = end - likely / limits::waiting_spin_parts;
  spin_until_ = end + likely / limits::waiting_spin_parts;
}

void Pause::rest() {
  const auto now = std::chrono::steady_clock::now();
  if (now < spin_from_) {
    std::this_thread::sleep_until(spin_from_);
  } else if (++asked_ <= 64 || now < spin_until_) {
    pause();
  } else {
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, limits::waiting_pause_max);
  }
}

std::string trace_args(const Work& work) {
  return fmt::format(R"("kind":"{}","rows":{},"sequences":{},"context":{})", to_string(work.kind),
                     work.rows, work.sequences, work.context);
}

Error current_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "a step ran out of memory",
            "use a smaller batch, context or prefill chunk"};
  } catch (const std::exception& e) {
    return {ErrorCode::internal, std::string("a step failed: ") + e.what(), {}};
  } catch (...) {
    return {ErrorCode::internal, "a step failed", {}};
  }
}

} // namespace paceline::gpu
