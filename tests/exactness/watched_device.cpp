#include "tests/exactness/watched_device.hpp"

#include "gpu/cpu/operations.hpp"
#include "gpu/device_group.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/scripted_operations.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace paceline::testing {
namespace {

/// A CPU's, of one rank; drawing and judging are watched.
class WatchedOperations final : public ScriptedOperations {
public:
  explicit WatchedOperations(const Watch& watch)
      : watch_(watch), team_(gpu::cpu::scalar_kernels(), 1), cpu_(team_, 0) {}

  /// Begins a piece. In a step in shards these have their parts one after the other.
  void begin_piece(int number, bool in_shards) {
    piece_ = number;
    shards_ = {0, in_shards ? watch_.shards : 1};
    drawn_.clear();
  }
  gpu::ShardRange shards() const override { return shards_; }
  std::span<const gpu::ProposeTask> drawn() const { return drawn_; }

  void propose(std::span<gpu::ProposeTask> tasks) override {
    if (watch_.coarse)
      watch_.coarse->propose(tasks);
    else
      cpu_.propose(tasks);
    drawn_.assign(tasks.begin(), tasks.end());
    watch_.probe->proposed(tasks);
  }
  void verify(std::span<gpu::VerifyTask> tasks) override {
    if (watch_.coarse)
      watch_.coarse->verify(tasks);
    else
      cpu_.verify(tasks);
    if (piece_ == 0)
      watch_.probe->judged_windows(tasks);
    else
      watch_.probe->judged_lookaheads(tasks);
  }
  void score(std::span<gpu::ScoreTask> tasks) override { cpu_.score(tasks); }
  void copy_pages(const gpu::KvPool& pool, std::span<const gpu::PageCopy> pages) override {
    cpu_.copy_pages(pool, pages);
  }

private:
  const Watch& watch_;
  gpu::cpu::TeamState team_;
  gpu::cpu::CpuOperations cpu_;
  int piece_ = 0;
  gpu::ShardRange shards_;
  std::vector<gpu::ProposeTask> drawn_;
};

/// Returns a pacemaker for each shard; they have nothing to do with each other.
std::vector<Pacemaker> pacemakers_of(const Watch& watch, const std::string& role) {
  std::vector<Pacemaker> pacemakers;
  for (int shard = 0; shard < watch.shards; ++shard)
    pacemakers.emplace_back(watch.pace,
                            (watch.seed + 7919 * std::uint64_t(shard)) * 2 + (role == "draft"));
  return pacemakers;
}

/// A lane's queue: one callback is pending at any time, or the queue is empty.
class LaneState : public std::enable_shared_from_this<LaneState> {
public:
  LaneState(Watch watch, const std::string& role)
      : watch_(std::move(watch)), pacemakers_(pacemakers_of(watch_, role)), operations_(watch_) {}

  void submit(std::shared_ptr<gpu::Step> step) {
    queue_.push_back(std::move(step));
    if (!std::exchange(busy_, true))
      call_after(0ns, &LaneState::advance);
  }
  /// Threads: any. A run ends with idle lanes, so that nothing is left to retire.
  void close() { closing_ = true; }

private:
  void call_after(base::Duration delay, void (LaneState::*then)()) {
    watch_.time->after(delay, [weak = weak_from_this(), then] {
      if (const auto self = weak.lock(); self && !self->closing_)
        ((*self).*then)();
    });
  }

  void advance() {
    while (step_ || begin_next()) {
      const base::TimePoint now = watch_.time->now();
      const auto next = step_->prepare(now);
      if (next == gpu::Step::Next::done) {
        retire();
        continue;
      }
      if (next == gpu::Step::Next::waiting) {
        note_wait(now);
        return call_after(asking_again(), &LaneState::advance);
      }
      waiting_since_.reset();
      piece_begin_ = now;
      if (piece_ == 0)
        how_.begin = now;
      call_after(run_piece(), &LaneState::finish);
      return look_behind();
    }
    busy_ = false;
  }
  void finish() {
    how_.end = watch_.time->now();
    how_.busy += how_.end - piece_begin_;
    step_->complete(how_.end);
    if (!behind_)
      return advance();
    piece_begin_ = how_.end;
    call_after(*std::exchange(behind_, std::nullopt), &LaneState::finish);
    look_behind();
  }

  /// The piece that was prepared last; its length.
  base::Duration run_piece() {
    operations_.begin_piece(piece_++, step_->in_shards());
    auto& looked_up = watch_.probe->looked_up;
    looked_up.clear();
    step_->run(operations_);
    const bool by_drafter = !looked_up.empty();
    base::Duration longest{};
    for (Pacemaker& pacemaker : pacemakers_)
      longest = std::max(
          longest, pacemaker.length(step_->work(), by_drafter ? looked_up : operations_.drawn()));
    return longest;
  }
  void look_behind() {
    if (watch_.queues && step_->prepare_behind(watch_.time->now()))
      behind_ = run_piece();
  }

  void note_wait(base::TimePoint now) {
    Seen& seen = watch_.probe->seen;
    if (!waiting_since_) {
      waiting_since_ = now;
      ++(piece_ == 0 ? seen.late_windows : seen.late_lookaheads);
    }
    seen.longest_wait = std::max<base::Duration>(seen.longest_wait, now - *waiting_since_);
  }

  bool begin_next() {
    if (queue_.empty())
      return false;
    step_ = std::move(queue_.front());
    queue_.pop_front();
    piece_ = 0;
    how_ = {};
    how_.begin = how_.end = watch_.time->now();
    return true;
  }
  void retire() {
    how_.completed = true;
    std::exchange(step_, nullptr)->retire(how_);
  }

  /// A small part of a long wait.
  base::Duration asking_again() const {
    return std::max<base::Duration>(200us, watch_.pace.target / 100);
  }

  const Watch watch_;
  std::vector<Pacemaker> pacemakers_;
  WatchedOperations operations_;
  std::deque<std::shared_ptr<gpu::Step>> queue_;
  bool busy_ = false;
  std::atomic<bool> closing_{false};

  // The running step.
  std::shared_ptr<gpu::Step> step_;
  int piece_ = 0;
  gpu::Retirement how_;
  base::TimePoint piece_begin_;
  std::optional<base::Duration> behind_; ///< How long the piece behind the one at work will take.
  std::optional<base::TimePoint> waiting_since_;
};

class WatchedLane final : public gpu::Lane {
public:
  WatchedLane(const Watch& watch, std::string role)
      : name_(std::move(role)), state_(std::make_shared<LaneState>(watch, name_)) {}
  ~WatchedLane() override { state_->close(); }
  bool submit(std::shared_ptr<gpu::Step> step) override {
    state_->submit(std::move(step));
    return true;
  }
  const std::string& name() const override { return name_; }

private:
  std::string name_;
  std::shared_ptr<LaneState> state_;
};

/// Memory and weights are a CPU's.
class WatchedDevice final : public ForwardingDevice {
public:
  explicit WatchedDevice(Watch watch)
      : ForwardingDevice(
            gpu::open_device("cpu", {.threads = 1, .time = watch.time, .trace = {}}).value()),
        watch_(std::move(watch)) {}

  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return name_; }
  Result<std::unique_ptr<gpu::Lane>> open_lane(std::string role) override {
    return std::make_unique<WatchedLane>(watch_, std::move(role));
  }
  Result<std::shared_ptr<gpu::Device>>
  make_group(std::span<const std::shared_ptr<gpu::Device>> shards,
             gpu::GroupWork work) const override {
    Watch watch = watch_;
    watch.shards = int(shards.size());
    return gpu::make_group(shards, work, [watch](const gpu::DeviceGroup&, const std::string& role) {
      return Result<std::unique_ptr<gpu::Lane>>(std::make_unique<WatchedLane>(watch, role));
    });
  }

private:
  Watch watch_;
  std::string name_ = "watched";
};

} // namespace

std::shared_ptr<gpu::Device> make_watched_device(Watch watch) {
  return std::make_shared<WatchedDevice>(std::move(watch));
}

} // namespace paceline::testing
