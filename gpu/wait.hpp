// How a lane's threads wait for one another: spinning while the answer is likely to be close,
// then giving the core away whenever somebody else wants it, then asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <sched.h>

namespace paceline::gpu {

/// Tells the processor that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How long to spin, and how long (from the beginning) to go on yielding before sleeping.
/// Yielding costs a system call, but lets another lane's thread on the same core run at once.
struct Patience {
  std::chrono::nanoseconds spin;
  std::chrono::nanoseconds yield;
};

/// Returns when `word` differs from `old` (acquire). Whoever changes it calls notify_all.
inline void wait_change(const std::atomic<std::uint32_t>& word, std::uint32_t old,
                        Patience patience) {
  using Clock = std::chrono::steady_clock;
  if (word.load(std::memory_order_acquire) != old)
    return;
  const auto begin = Clock::now();
  for (;;) {
    for (int i = 0; i < 8; ++i) {
      if (word.load(std::memory_order_acquire) != old)
        return;
      pause();
    }
    const auto waited = Clock::now() - begin;
    if (waited >= patience.yield)
      break;
    if (waited >= patience.spin)
      sched_yield();
  }
  word.wait(old, std::memory_order_acquire);
}

} // namespace paceline::gpu
