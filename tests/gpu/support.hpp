// What the device layer's tests share: clocks, steps made of lambdas, and random data.
#pragma once

#include "base/clock.hpp"
#include "gpu/device.hpp"
#include "gpu/lane.hpp"

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace paceline::gpu::testing {

inline bool says(const Error& error, const char* what) {
  return error.text().find(what) != std::string::npos;
}

class RealTime final : public base::Timekeeper {
public:
  base::TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void after(base::Duration, std::function<void()>) override { std::abort(); }
};

/// Time passes only in `advance`, which calls what is due in order of time, then of asking.
class VirtualTime final : public base::Timekeeper {
public:
  base::TimePoint now() const override { return now_; }
  void after(base::Duration delay, std::function<void()> then) override {
    due_.emplace(std::pair(now_ + delay, count_++), std::move(then));
  }
  bool step() {
    if (due_.empty())
      return false;
    auto first = due_.extract(due_.begin());
    now_ = first.key().first;
    first.mapped()();
    return true;
  }
  void run() {
    while (step())
      ;
  }

private:
  base::TimePoint now_{};
  std::uint64_t count_ = 0;
  std::map<std::pair<base::TimePoint, std::uint64_t>, std::function<void()>> due_;
};

/// A step of one piece (or of what `prepare_with` says) whose end can be waited for.
class TestStep : public Step {
public:
  explicit TestStep(std::function<void(Operations&)> body = [](Operations&) {})
      : body_(std::move(body)) {}

  std::function<Next(base::TimePoint)> prepare_with;
  std::function<bool()> prepare_behind_with;
  std::function<void(const Retirement&)> retire_with;
  std::function<void(base::TimePoint)> complete_with;
  Work what;

  std::string name() const override { return "test"; }
  Next prepare(base::TimePoint now) override {
    if (prepare_with)
      return prepare_with(now);
    return pieces_++ == 0 ? Next::ready : Next::done;
  }
  bool prepare_behind(base::TimePoint) override {
    return prepare_behind_with && prepare_behind_with();
  }
  Work work() const override { return what; }
  void run(Operations& operations) override { body_(operations); }
  void complete(base::TimePoint now) override {
    if (complete_with)
      complete_with(now);
  }
  void retire(const Retirement& how) override {
    if (retire_with)
      retire_with(how);
    const std::lock_guard lock(mutex_);
    how_ = how;
    ++retired_;
    changed_.notify_all();
  }

  Retirement wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return retired_ > 0; });
    return how_;
  }
  int retired() const {
    const std::lock_guard lock(mutex_);
    return retired_;
  }

private:
  std::function<void(Operations&)> body_;
  int pieces_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Retirement how_;
  int retired_ = 0;
};

/// Uniform in [-1, 1), repeatable.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435769u + 1) {}
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return std::uint32_t(state_ >> 32);
  }
  int below(int n) { return int(bits() % std::uint32_t(n)); }
  float next() { return float(std::int32_t(bits())) * 0x1p-31f; }
  std::vector<float> floats(std::size_t count, float scale = 1) {
    std::vector<float> values(count);
    for (float& value : values)
      value = next() * scale;
    return values;
  }

private:
  std::uint64_t state_;
};

} // namespace paceline::gpu::testing
