// The barrier that ends every operation of a team.
#pragma once

#include "gpu/limits.hpp"
#include "gpu/wait.hpp"

#include <atomic>
#include <cstdint>
#include <exception>

namespace paceline::gpu::cpu {

/// Thrown at a barrier on the ranks that did not fail, so that they leave the region, too.
struct Poisoned : std::exception {
  const char* what() const noexcept override { return "another thread of the team failed"; }
};

/// A barrier with an epoch counter. arrive_and_wait and poison may be called from any rank, reset
/// when all have left.
class Barrier {
public:
  explicit Barrier(int parties) : parties_(std::uint32_t(parties)) {}

  void arrive_and_wait() {
    if (parties_ == 1)
      return;
    const std::uint32_t epoch = epoch_.load();
    if (poisoned_.load(std::memory_order_acquire))
      throw Poisoned();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn();
    } else {
      epoch_.wait_change(epoch, limits::barrier_spin);
    }
    if (poisoned_.load(std::memory_order_acquire))
      throw Poisoned();
  }

  /// Makes all ranks throw that wait or arrive from now on.
  void poison() {
    poisoned_.store(true, std::memory_order_release);
    turn();
  }

  void reset() {
    arrived_.store(0, std::memory_order_relaxed);
    poisoned_.store(false, std::memory_order_relaxed);
  }

private:
  // Always a read-modify-write, so that ranks that see any later epoch see an earlier poisoning,
  // too.
  void turn() {
    epoch_.add(1);
    epoch_.wake();
  }

  const std::uint32_t parties_;
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) WaitWord epoch_;
  std::atomic<bool> poisoned_{false};
};

} // namespace paceline::gpu::cpu
