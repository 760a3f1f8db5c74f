// Clocks, which are passed in: the real one, or a virtual one in simulation.
#pragma once

#include <chrono>
#include <functional>

namespace paceline::base {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

/// A clock that can also call back. Threads: any.
class Timekeeper {
public:
  virtual ~Timekeeper() = default;
  virtual TimePoint now() const = 0;
  /// Calls `then` once, `delay` from now, on a thread of the implementation's.
  virtual void after(Duration delay, std::function<void()> then) = 0;
};

} // namespace paceline::base
