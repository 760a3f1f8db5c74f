// The real clock, for devices that a command opens by itself.
#pragma once

#include "base/clock.hpp"

#include <cassert>

namespace paceline::apps {

/// The real clock. Lanes with threads of their own only read the clock; simulated ones, which ask
/// to be called back, are opened by the engine.
class SteadyTime final : public base::Timekeeper {
public:
  base::TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void after(base::Duration, std::function<void()>) override {
    assert(!"only simulated devices ask to be called back");
  }
};

} // namespace paceline::apps
