#include "execution/crossing_pass.hpp"

#include <utility>

namespace paceline::execution {

CrossingPass::CrossingPass(const Stage& stage, std::shared_ptr<ForwardPass> pass,
                           std::shared_ptr<base::Telemetry> telemetry, Error lost)
    : telemetry_(telemetry), step_(stage, std::move(pass), std::move(telemetry)),
      lost_(std::move(lost)) {}

CrossingPass::~CrossingPass() {
  if (!retired_)
    fail(lost_);
}

bool CrossingPass::prepare(base::TimePoint now) {
  if (step_.prepare(now) != gpu::Step::Next::ready) // Only the first stage waits.
    return false;
  begin_ = now;
  return true;
}

void CrossingPass::complete(base::TimePoint now) {
  if (begin_)
    step_.complete(now);
  const base::TimePoint begin = begin_.value_or(now);
  retire({.completed = true, .error = {}, .begin = begin, .end = now, .busy = now - begin});
}

void CrossingPass::fail(Error why) {
  const base::TimePoint now = telemetry_->time->now();
  retire({.completed = false, .error = std::move(why), .begin = now, .end = now, .busy = {}});
}

void CrossingPass::retire(const gpu::Retirement& how) {
  retired_ = true;
  step_.retire(how);
}

} // namespace paceline::execution
