// Which cores this process' lanes have work for.
#pragma once

#include <atomic>
#include <vector>

namespace paceline::gpu::cpu {

/// A lane's word about its cores. Lanes may share a core, a draft's and a target's say: a thread
/// that spins there for want of work gives the core to a lane that has some, and to nobody else.
/// Threads: `claim` and `release` one after the other; wanted_by_others any.
class CoreClaims {
public:
  explicit CoreClaims(std::vector<int> cores) : cores_(std::move(cores)) {}
  ~CoreClaims() { release(); }
  CoreClaims(const CoreClaims&) = delete;
  CoreClaims& operator=(const CoreClaims&) = delete;

  void claim() { set(true); } ///< The lane has work; again: nothing.
  void release() { set(false); }
  /// Whether another lane has work for this core of the lane's.
  bool wanted_by_others(int core) const;

private:
  void set(bool claimed);

  const std::vector<int> cores_;
  std::atomic<bool> claimed_{false};
};

} // namespace paceline::gpu::cpu
