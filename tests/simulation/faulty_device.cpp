#include "tests/simulation/faulty_device.hpp"

#include "tests/support/forwarding_device.hpp"
#include "tests/support/scripted_operations.hpp"

#include <limits>
#include <stdexcept>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

/// Drawing and judging by the device below, and lies.
class LyingOperations final : public ScriptedOperations {
public:
  LyingOperations(gpu::Operations& honest, FaultSource& faults)
      : honest_(honest), faults_(faults) {}

  gpu::ShardRange shards() const override { return honest_.shards(); }

  void propose(std::span<gpu::ProposeTask> tasks) override {
    honest_.propose(tasks);
    for (gpu::ProposeTask& task : tasks) {
      if (faults_.strikes(&FaultPlan::lying_token))
        task.token = (task.token + 1) % task.vocabulary;
      if (faults_.strikes(&FaultPlan::absurd_token))
        task.token = task.position % 2 ? -7 : 1 << 20;
      if (task.q && faults_.strikes(&FaultPlan::lying_q))
        spoil(task.q, task.vocabulary, task.position);
    }
  }
  void verify(std::span<gpu::VerifyTask> tasks) override {
    for (gpu::VerifyTask& task : tasks)
      if (faults_.strikes(&FaultPlan::nan_row)) // the workspace's memory, which it may write
        const_cast<float*>(task.logits)[task.position % 3] =
            std::numeric_limits<float>::quiet_NaN();
    honest_.verify(tasks);
  }
  void score(std::span<gpu::ScoreTask> tasks) override { honest_.score(tasks); }
  void copy_pages(const gpu::KvPool& pool, std::span<const gpu::PageCopy> pages) override {
    honest_.copy_pages(pool, pages);
  }

private:
  static void spoil(float* q, int vocabulary, std::uint32_t how) {
    switch (how % 3) {
    case 0: q[how % 5] = std::numeric_limits<float>::quiet_NaN(); break;
    case 1: q[how % 5] += 1; break;
    default:
      for (int i = 0; i < vocabulary; ++i)
        q[i] = -q[i];
    }
  }

  gpu::Operations& honest_;
  FaultSource& faults_;
};

/// A lane's piece under way, and the lane itself once its owner has let go.
struct Piece {
  explicit Piece(std::shared_ptr<bool> gone) : lost(std::move(gone)) {}
  std::shared_ptr<bool> lost; ///< The device is.
  bool running = false;
  bool stands_still = false;
  bool abandoned = false;
  std::unique_ptr<gpu::Lane> lane;
};

/// A step whose pieces take the time that the plan says: the profile charges a microsecond a row.
class FaultyStep final : public gpu::Step {
public:
  FaultyStep(std::shared_ptr<gpu::Step> step, FaultySettings settings,
             std::shared_ptr<std::mt19937_64> random, std::shared_ptr<Piece> piece)
      : step_(std::move(step)), settings_(std::move(settings)), random_(std::move(random)),
        piece_(std::move(piece)) {}

  std::string name() const override { return step_->name(); }
  Next prepare(base::TimePoint now) override {
    if (piece_->abandoned)
      throw std::runtime_error("the lane was closed");
    return step_->prepare(now);
  }
  bool prepare_behind(base::TimePoint now) override {
    return !piece_->abandoned && step_->prepare_behind(now);
  }
  gpu::Work work() const override {
    gpu::Work work = step_->work();
    if (piece_->abandoned) // a piece that stood ready behind the last one; the lane ends before it
      return work;
    const auto length = work.kind == gpu::Work::Kind::verify ? settings_.step / 50 : pass_length();
    piece_->running = true;
    work.kind = gpu::Work::Kind::decode;
    work.rows = 1 + int(length / 1us);
    return work;
  }
  bool in_shards() const override { return step_->in_shards(); }
  void run(gpu::Operations& operations) override {
    *piece_->lost |= settings_.mortal && settings_.faults->strikes(&FaultPlan::lost);
    if (*piece_->lost)
      throw std::runtime_error("injected: the device is lost");
    if (settings_.faults->strikes(&FaultPlan::failing))
      throw std::runtime_error("injected: a step fails");
    LyingOperations lying(operations, *settings_.faults);
    step_->run(lying);
  }
  void complete(base::TimePoint now) override {
    ended();
    step_->complete(now);
  }
  void retire(const gpu::Retirement& how) override {
    ended();
    step_->retire(how);
  }

private:
  /// A lane that was abandoned can be closed now, from outside its own callback.
  void ended() {
    if (!std::exchange(piece_->running, false))
      return;
    const bool stood_still = std::exchange(piece_->stands_still, false);
    if (!piece_->abandoned)
      return;
    if (stood_still && settings_.news)
      settings_.news(LaneNews::woke);
    settings_.time->after(0ns, [piece = piece_] { piece->lane = nullptr; });
  }
  base::Duration pass_length() const {
    const double drawn = 0.5 + double((*random_)() >> 11) * 0x1p-53;
    const double jitter = settings_.steady ? 1 : drawn;
    const base::Duration usual = base::from_seconds(base::seconds(settings_.step) * jitter);
    if (settings_.faults->strikes(&FaultPlan::slow))
      return 10 * usual;
    if (!settings_.stands_still)
      return usual;
    if (settings_.faults->strikes(&FaultPlan::stalled)) {
      piece_->stands_still = true;
      // Half of them wake about when the lane has just been given up.
      return 100ms + settings_.faults->delay((*random_)() % 2 ? 4s : 20min);
    }
    if (settings_.faults->strikes(&FaultPlan::stuck)) {
      piece_->stands_still = true;
      return 48h;
    }
    return usual;
  }

  std::shared_ptr<gpu::Step> step_;
  FaultySettings settings_;
  std::shared_ptr<std::mt19937_64> random_;
  std::shared_ptr<Piece> piece_;
};

class FaultyLane final : public gpu::Lane {
public:
  FaultyLane(std::unique_ptr<gpu::Lane> lane, FaultySettings settings,
             std::shared_ptr<std::mt19937_64> random, std::shared_ptr<bool> lost)
      : lane_(std::move(lane)), settings_(std::move(settings)), random_(std::move(random)),
        piece_(std::make_shared<Piece>(std::move(lost))) {}
  ~FaultyLane() override {
    if (!piece_->running)
      return;
    piece_->abandoned = true;
    piece_->lane = std::move(lane_);
    if (piece_->stands_still && settings_.news)
      settings_.news(LaneNews::abandoned);
  }
  FaultyLane(const FaultyLane&) = delete;
  FaultyLane& operator=(const FaultyLane&) = delete;
  bool submit(std::shared_ptr<gpu::Step> step) override {
    return lane_->submit(std::make_shared<FaultyStep>(std::move(step), settings_, random_, piece_));
  }
  const std::string& name() const override { return lane_->name(); }

private:
  std::unique_ptr<gpu::Lane> lane_;
  FaultySettings settings_;
  std::shared_ptr<std::mt19937_64> random_;
  std::shared_ptr<Piece> piece_;
};

class FaultyDevice final : public ForwardingDevice {
public:
  explicit FaultyDevice(FaultySettings settings)
      : ForwardingDevice(open(settings)), settings_(std::move(settings)),
        random_(std::make_shared<std::mt19937_64>(settings_.seed)) {
    for (int i = 1; i < settings_.shards; ++i)
      shards_.push_back(open(settings_));
    if (shards_.empty())
      return;
    shards_.push_back(device_);
    device_ = device_->make_group(shards_).value();
  }

  Result<std::shared_ptr<gpu::Buffer>> allocate(std::size_t bytes) override {
    if (settings_.faults->strikes(&FaultPlan::refused_memory))
      return fail(ErrorCode::out_of_memory, "injected: no memory");
    return device_->allocate(bytes);
  }
  std::span<const std::shared_ptr<gpu::Device>> shards() const override { return shards_; }
  Result<std::unique_ptr<gpu::Lane>> open_lane(std::string role) override {
    if (*lost_)
      return fail(ErrorCode::unavailable, "injected: the device is lost");
    auto lane = device_->open_lane(std::move(role));
    if (!lane)
      return lane;
    return std::make_unique<FaultyLane>(std::move(*lane), settings_, random_, lost_);
  }

private:
  static std::shared_ptr<gpu::Device> open(const FaultySettings& settings) {
    return gpu::open_device(settings.queues ? "sim:0us+1us/row+queue" : "sim:0us+1us/row",
                            {.threads = 1, .time = settings.time, .trace = nullptr})
        .value();
  }

  FaultySettings settings_;
  std::shared_ptr<std::mt19937_64> random_;
  std::shared_ptr<bool> lost_ = std::make_shared<bool>(false);
  std::vector<std::shared_ptr<gpu::Device>> shards_;
};

} // namespace

std::shared_ptr<gpu::Device> make_faulty_device(FaultySettings settings) {
  return std::make_shared<FaultyDevice>(std::move(settings));
}

} // namespace paceline::testing
