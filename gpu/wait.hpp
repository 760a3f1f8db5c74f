// How a lane's threads wait for one another: they spin while the answer is likely to be close, then
// sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace paceline::gpu {

/// Tells the processor that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A number, and threads that wait for it to change. std::atomic's own wait yields the core before
/// it sleeps, and a thread that yields to a busy neighbour runs again only after the neighbour's
/// whole turn, milliseconds later. A sleeper runs as soon as it is woken. Threads: any.
class WaitWord {
public:
  /// Loads with acquire order.
  std::uint32_t load() const { return word_.load(std::memory_order_acquire); }
  /// Sets the number; only before any thread waits.
  void store(std::uint32_t value) { word_.store(value, std::memory_order_relaxed); }

  /// Returns the sum (acquire and release). Sleeping threads go on sleeping until `wake`.
  std::uint32_t add(std::uint32_t number) { return word_.fetch_add(number) + number; }
  /// Wakes all sleeping threads; may be called on any thread, after its own `add`.
  void wake() {
    if (sleepers_.load() > 0)
      futex(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  /// Returns when the number is not `old` any more (acquire): spins for about `spin`, then sleeps.
  void wait_change(std::uint32_t old, std::chrono::nanoseconds spin) {
    while (load() == old && !spun(old, spin)) {
      sleepers_.fetch_add(1); // Precedes the second load; `wake` loads this after `add`.
      if (word_.load() == old)
        futex(FUTEX_WAIT_PRIVATE, old);
      sleepers_.fetch_sub(1);
    }
    roused_until_.store({}, std::memory_order_relaxed);
  }

  /// Tells that the number is about to change: sleeping threads wake up, and all waiting threads
  /// spin for `spin` from now on. It is a hint, which may be lost on a thread that is just falling
  /// asleep. Threads: any.
  void rouse(std::chrono::nanoseconds spin) {
    roused_until_.store(Clock::now() + spin, std::memory_order_relaxed);
    wake();
  }

private:
  using Clock = std::chrono::steady_clock;

  bool spun(std::uint32_t old, std::chrono::nanoseconds spin) const {
    const auto end = Clock::now() + spin;
    do
      for (int i = 0; i < 8; ++i) {
        if (load() != old)
          return true;
        pause();
      }
    while (Clock::now() < std::max(end, roused_until_.load(std::memory_order_relaxed)));
    return false;
  }
  void futex(int what, std::uint32_t number) {
    syscall(SYS_futex, &word_, what, number, nullptr, nullptr, 0);
  }

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<Clock::time_point> roused_until_{};
};

} // namespace paceline::gpu
