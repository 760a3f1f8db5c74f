#include "apps/laboratory/timed_step.hpp"

#include <future>
#include <memory>

namespace paceline::apps {
namespace {

class TimedStep final : public gpu::Step {
public:
  TimedStep(int times, std::function<void(gpu::Operations&)> body, std::function<void()> before)
      : times_(times), body_(std::move(body)), before_(std::move(before)) {}

  std::string name() const override { return "bench"; }
  Next prepare(base::TimePoint) override {
    if (int(seconds_.size()) == times_)
      return Next::done;
    if (before_)
      before_();
    begin_ = std::chrono::steady_clock::now();
    return Next::ready;
  }
  gpu::Work work() const override { return {}; }
  void run(gpu::Operations& operations) override { body_(operations); }
  void complete(base::TimePoint now) override { seconds_.push_back(base::seconds(now - begin_)); }
  void retire(const gpu::Retirement& how) override { retired_.set_value(how); }

  /// Waits for the end of the step.
  Result<std::vector<double>> seconds() {
    const gpu::Retirement how = retired_.get_future().get();
    if (how.error)
      return tl::unexpected(*how.error);
    return seconds_;
  }

private:
  const int times_;
  const std::function<void(gpu::Operations&)> body_;
  const std::function<void()> before_;
  base::TimePoint begin_;
  std::vector<double> seconds_;
  std::promise<gpu::Retirement> retired_;
};

} // namespace

Result<std::vector<double>> time_on(gpu::Lane& lane, int times,
                                    std::function<void(gpu::Operations&)> body,
                                    std::function<void()> before) {
  const auto step = std::make_shared<TimedStep>(times, std::move(body), std::move(before));
  if (!lane.submit(step))
    return fail(ErrorCode::internal, "the lane refused a step", "please report it");
  return step->seconds();
}

} // namespace paceline::apps
