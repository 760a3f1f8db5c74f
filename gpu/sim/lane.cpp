#include "gpu/sim/lane.hpp"

#include "gpu/cpu/denormals.hpp"
#include "gpu/cpu/operations.hpp"
#include "gpu/limits.hpp"
#include "gpu/thread_lane.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace paceline::gpu::sim {
namespace {

// A state machine driven by a timer: at any time one callback is pending or running, or the queue
// is empty. Pending callbacks hold weak references, so that they do nothing once the lane is gone.
class LaneState : public std::enable_shared_from_this<LaneState> {
public:
  explicit LaneState(LaneOptions options)
      : options_(std::move(options)), team_(*options_.kernels, 1), operations_(team_, 0),
        shard_operations_(team_, 0, {0, int(options_.beside.size()) + 1}, nullptr) {}

  const std::string& name() const { return options_.name; }

  bool submit(std::shared_ptr<Step> step) {
    const std::lock_guard lock(mutex_);
    if (closing_ || queue_.size() >= limits::lane_queue_max)
      return false;
    queue_.push_back(std::move(step));
    if (!scheduled_) {
      scheduled_ = true;
      call_after({}, &LaneState::advance);
    }
    return true;
  }

  // Waits until no callback runs on another thread, then retires all steps.
  void close() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    if (running_ == std::this_thread::get_id())
      return; // The running callback sees `closing_` and retires the rest.
    idle_.wait(lock, [this] { return running_ == std::thread::id(); });
    lock.unlock();
    retire_rest();
  }

private:
  void call_after(base::Duration delay, void (LaneState::*then)()) {
    options_.time->after(delay, [weak = weak_from_this(), then] {
      if (const auto self = weak.lock())
        self->enter(then);
    });
  }

  void enter(void (LaneState::*then)()) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_)
        return;
      running_ = std::this_thread::get_id();
    }
    (this->*then)();
    if (closing_) // Set by the step just run, or by a thread that waits for this callback's end.
      retire_rest();
    const std::lock_guard lock(mutex_);
    running_ = {};
    idle_.notify_all();
  }

  // Asks again later, the longer the step has waited; a wait of seconds needs no microseconds.
  void wait(base::TimePoint now) {
    const base::Duration waited = now - waits_since_.value_or(now);
    waits_since_ = now - waited;
    call_after(
        std::max<base::Duration>(limits::sim_waiting_pause, waited / limits::sim_waiting_parts),
        &LaneState::advance);
  }

  // Asks the front step for pieces until one takes time.
  void advance() {
    while (!closing_) {
      if (!step_ && !begin_next())
        return;
      try {
        const base::TimePoint now = options_.time->now();
        const Step::Next next = step_->prepare(now);
        if (next == Step::Next::waiting)
          return wait(now);
        waits_since_.reset();
        if (next == Step::Next::done) {
          retire(true);
          continue;
        }
        if (!begun_)
          how_.begin = now;
        begun_ = true;
        if (begin_piece(now, false))
          return;
        finish_pieces();
      } catch (...) {
        waits_since_.reset();
        fail_step();
      }
    }
  }

  void finish_pieces_and_advance() {
    try {
      if (!finish_pieces())
        return;
    } catch (...) {
      fail_step();
    }
    advance();
  }

  // Begins the piece that was prepared last. Returns true if it takes time; a callback will finish
  // it. behind: the piece stood ready behind another.
  bool begin_piece(base::TimePoint now, bool behind) {
    piece_begin_ = now;
    work_ = step_->work();
    const base::Duration latency = latency_of(work_, behind);
    stands_behind_ = options_.profile.queues && step_->prepare_behind(now);
    if (latency == base::Duration::zero())
      return false;
    call_after(latency, &LaneState::finish_pieces_and_advance); // Last: what follows cannot throw.
    return true;
  }

  // Finishes the piece whose time is over and those behind it that take none. False if one takes
  // time.
  bool finish_pieces() {
    for (;;) {
      finish_piece();
      if (!stands_behind_ || closing_)
        return true;
      if (begin_piece(how_.end, true))
        return false;
    }
  }

  void finish_piece() {
    {
      const cpu::FlushDenormals numeric_setting;
      step_->run(step_->in_shards() ? shard_operations_ : operations_);
    }
    how_.end = options_.time->now();
    step_->complete(how_.end);
    how_.busy += how_.end - piece_begin_;
    if (options_.trace && options_.trace->wanted())
      options_.trace->lane_span(options_.name, step_->name(), piece_begin_, how_.end,
                                trace_args(work_));
  }

  // Returns the time until all devices are done.
  base::Duration latency_of(const Work& work, bool behind) {
    base::Duration latency = jittered(options_.profile, work, behind);
    base::Duration hops{};
    for (const Profile& profile : options_.beside) {
      const base::Duration other = jittered(profile, work, behind);
      latency = options_.in_turn ? latency + other : std::max(latency, other);
      hops += profile.hop;
    }
    return work.kind == Work::Kind::verify ? latency : latency + hops;
  }

  base::Duration jittered(const Profile& profile, const Work& work, bool behind) {
    const base::Duration latency = profile.latency(work, behind);
    if (profile.jitter == 0)
      return latency;
    const double u = 2 * (double(random_() >> 11) * 0x1p-53) - 1;
    return base::from_seconds(base::seconds(latency) * (1 + profile.jitter * u));
  }

  bool begin_next() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      scheduled_ = false;
      return false;
    }
    step_ = std::move(queue_.front());
    queue_.pop_front();
    how_ = {};
    stands_behind_ = false;
    how_.begin = how_.end = options_.time->now();
    begun_ = false;
    return true;
  }

  void fail_step() {
    how_.error = current_error();
    how_.end = options_.time->now();
    retire(false);
  }

  void retire(bool completed) {
    how_.completed = completed;
    const std::shared_ptr<Step> step = std::move(step_);
    try {
      step->retire(how_);
    } catch (...) { // Nobody is left to tell: the step has retired all the same.
    }
  }

  void retire_rest() {
    while (step_ || begin_next()) {
      how_.error = Error{ErrorCode::unavailable, "the lane " + options_.name + " was closed", {}};
      retire(false);
    }
  }

  const LaneOptions options_;
  cpu::TeamState team_;
  cpu::CpuOperations operations_;
  cpu::CpuOperations shard_operations_; ///< Runs all shards, one after the other.

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<Step>> queue_;
  bool scheduled_ = false;           // Whether a callback is pending or running.
  std::atomic<bool> closing_{false}; // Set under the mutex.
  std::thread::id running_;          // Thread of the running callback; none: no callback runs.

  // The running step; only the callback uses these.
  std::shared_ptr<Step> step_;
  Retirement how_;
  Work work_;
  base::TimePoint piece_begin_;
  std::optional<base::TimePoint> waits_since_; ///< Start of the step's wait, if it waits.
  bool begun_ = false;
  bool stands_behind_ = false; ///< Whether a piece was prepared behind the current one.
  std::mt19937_64 random_{std::hash<std::string>()(options_.name)}; // The same in every run.
};

class SimLane final : public Lane {
public:
  explicit SimLane(std::shared_ptr<LaneState> state) : state_(std::move(state)) {}
  ~SimLane() override { state_->close(); }
  bool submit(std::shared_ptr<Step> step) override { return state_->submit(std::move(step)); }
  const std::string& name() const override { return state_->name(); }

private:
  std::shared_ptr<LaneState> state_;
};

} // namespace

std::unique_ptr<Lane> open_lane(LaneOptions options) {
  return std::make_unique<SimLane>(std::make_shared<LaneState>(std::move(options)));
}

} // namespace paceline::gpu::sim
