// The threads of a CPU lane: one parallel region at a time.
#pragma once

#include "gpu/cpu/operations.hpp"
#include "gpu/lane.hpp"
#include "gpu/limits.hpp"
#include "gpu/wait.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::gpu::cpu {

/// A team. Rank 0 is the thread that calls `run`; the others live from `start` to the destructor.
class Team {
public:
  /// shard_threads: threads of each shard, in the order of the cores; empty: one shard has all.
  Team(const Kernels& kernels, std::vector<int> cores, const std::vector<int>& shard_threads = {});
  ~Team();

  /// Starts the other ranks. May throw std::system_error; started ranks end in the destructor.
  void start();
  /// Binds and prepares the calling thread as rank 0.
  void enter();
  /// Runs `step` on every rank and returns when all have left; throws what a rank threw. A step in
  /// shards is run by each shard's threads as a team of their own; all of these meet.
  void run(Step& step);

  /// Tells that `run` will be called soon, so that the other ranks wake up. Threads: any.
  void rouse() { region_.rouse(limits::lane_roused_spin); }

private:
  void add_shards(const Kernels& kernels, const std::vector<int>& threads);
  CpuOperations& operations_for(const Step& step, int rank);
  void fail_all();
  void work(int rank);
  void run_rank(Step& step, int rank);
  void prepare_thread(int rank) const;

  const std::vector<int> cores_;
  TeamState state_;
  std::vector<std::unique_ptr<CpuOperations>> operations_;
  std::vector<std::unique_ptr<TeamState>> shards_;               ///< Teams of shards, if several.
  std::vector<std::unique_ptr<CpuOperations>> shard_operations_; ///< Each rank's in its shard.
  std::vector<std::thread> threads_;
  Step* step_ = nullptr; // The step of the region that `region_` counts.
  std::atomic<bool> closing_{false};
  alignas(64) WaitWord region_;
  alignas(64) WaitWord busy_; // Number of other ranks inside the region.
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

} // namespace paceline::gpu::cpu
