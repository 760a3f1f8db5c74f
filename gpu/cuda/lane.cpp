#include "gpu/cuda/lane.hpp"

#include "gpu/cuda/marks.hpp"
#include "gpu/cuda/operations.hpp"
#include "gpu/cuda/piece_clock.hpp"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <stdexcept>
#include <sys/prctl.h>
#include <system_error>

namespace paceline::gpu::cuda {
namespace {

class StreamExecutor final : public Executor {
public:
  StreamExecutor(std::shared_ptr<Context> context, std::shared_ptr<const Partition> partition,
                 std::string name, int priority, FastPath fast)
      : context_(std::move(context)), partition_(std::move(partition)), name_(std::move(name)),
        stream_(partition_ ? partition_->make_stream(priority) : make_stream(priority)),
        operations_{CudaOperations(context_, stream_.get(), fast),
                    CudaOperations(context_, stream_.get(), fast)} {}

  void enter() override {
    (void)cudaSetDevice(context_->index()); // It fails only if all that follows fails.
    prepare_lane_thread(name_);
  }

  void begin_step(const Step& step) override { step_.emplace(step.name()); }
  void end_step() override { step_.reset(); }

  bool queues() const override { return true; }

  void launch(Step& step, const Work& work) override {
    if (context_->lost())
      throw std::runtime_error(context_->lost_error().text());
    const Range piece(to_string(work.kind), work.rows);
    CudaOperations& operations = turn(launched_);
    operations.begin();
    step.run(operations);
    operations.launch();
    clock_.launch(work, PieceClock::Clock::now());
    ++launched_;
  }

  // Starts again with the first CudaOperations when nothing runs, so that the same operations make
  // the same pieces and find their graphs.
  void finish() override {
    turn(finished_).finish(clock_.left(PieceClock::Clock::now()));
    clock_.finish(PieceClock::Clock::now());
    if (++finished_ == launched_)
      finished_ = launched_ = 0;
  }

  void abandon() noexcept override {
    for (CudaOperations& operations : operations_)
      operations.abandon();
    clock_.abandon();
    finished_ = launched_ = 0;
    context_->examine();
  }

private:
  CudaOperations& turn(std::size_t piece) { return operations_[piece % operations_.size()]; }

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Partition> partition_; ///< Null: all multiprocessors.
  std::string name_;
  Stream stream_;
  PieceClock clock_;
  std::array<CudaOperations, 2> operations_; ///< Alternate; each has one piece at a time.
  std::size_t launched_ = 0;                 ///< Pieces launched since nothing ran.
  std::size_t finished_ = 0;                 ///< Finished ones of these.
  std::optional<Range> step_;                ///< The running step.
};

} // namespace

void prepare_lane_thread(const std::string& name) {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); // Short sleeps are to be exact.
  prctl(PR_SET_NAME, "paceline-lane", 0UL, 0UL, 0UL);
  name_thread(name);
}

int priority_of(const std::string& role) {
  int lowest = 0;
  int highest = 0;
  PACELINE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  return role == "draft" ? highest : lowest;
}

Result<FastPath> open_fast_path(Context& context, FastProductsRef products) {
  if (context.lost())
    return tl::unexpected(context.lost_error());
  FastPath fast{std::move(products), nullptr};
  if (!fast.products)
    return fast;
  return context.allocate(fast.products->scratch_bytes()).map([&](auto&& scratch) {
    fast.scratch = std::move(scratch);
    return std::move(fast);
  });
}

Result<std::unique_ptr<Lane>> open_lane(const std::shared_ptr<Context>& context,
                                        std::shared_ptr<const Partition> partition,
                                        const std::string& role, FastProductsRef products,
                                        ThreadLaneOptions options) {
  auto fast = open_fast_path(*context, std::move(products));
  if (!fast)
    return tl::unexpected(fast.error());
  try {
    const CurrentDevice current(context->index());
    auto executor = std::make_unique<StreamExecutor>(context, std::move(partition), options.name,
                                                     priority_of(role), std::move(*fast));
    return make_thread_lane(std::move(options), std::move(executor));
  } catch (const CudaError& e) {
    context->examine();
    return fail(ErrorCode::unavailable,
                fmt::format("cannot open a stream on {}: {}", context->name(), e.what()),
                "see nvidia-smi, or use another device");
  } catch (const std::system_error&) {
    return fail(ErrorCode::unavailable, "cannot start a lane's thread",
                "raise the limit of processes");
  }
}

} // namespace paceline::gpu::cuda
