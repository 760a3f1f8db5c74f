// Tells for which cores this process' lanes have work.
#pragma once

#include <atomic>
#include <vector>

namespace paceline::gpu::cpu {

/// A lane's claim to its cores. Lanes may share a core, e.g. a draft's and a target's. A thread
/// that spins there without work yields the core to a lane that has some, and to no other. Threads:
/// `claim` and `release` on any, one at a time; `wanted_by_others` on any.
class CoreClaims {
public:
  explicit CoreClaims(std::vector<int> cores) : cores_(std::move(cores)) {}
  ~CoreClaims() { release(); }
  CoreClaims(const CoreClaims&) = delete;
  CoreClaims& operator=(const CoreClaims&) = delete;

  void claim() { set(true); } ///< The lane has work; idempotent.
  void release() { set(false); }
  /// Returns whether another lane has work for this core of the lane.
  bool wanted_by_others(int core) const;

private:
  void set(bool claimed);

  const std::vector<int> cores_;
  std::atomic<bool> claimed_{false};
};

} // namespace paceline::gpu::cpu
