#include "gpu/cpu/team.hpp"

#include "base/short_turns.hpp"
#include "gpu/cpu/denormals.hpp"
#include "gpu/cpu/topology.hpp"

#include <cassert>
#include <sys/prctl.h>

namespace paceline::gpu::cpu {

Team::Team(const Kernels& kernels, std::vector<int> cores, const std::vector<int>& shard_threads)
    : cores_(std::move(cores)), state_(kernels, int(cores_.size())) {
  for (int rank = 0; rank < state_.ranks; ++rank)
    operations_.push_back(std::make_unique<CpuOperations>(state_, rank));
  if (shard_threads.size() > 1)
    add_shards(kernels, shard_threads);
}

void Team::add_shards(const Kernels& kernels, const std::vector<int>& threads) {
  for (const int count : threads) {
    const ShardRange own{int(shards_.size()), 1};
    TeamState& team = *shards_.emplace_back(std::make_unique<TeamState>(kernels, count));
    for (int rank = 0; rank < count; ++rank)
      shard_operations_.push_back(
          std::make_unique<CpuOperations>(team, rank, own, &state_.barrier));
  }
  assert(shard_operations_.size() == operations_.size());
}

CpuOperations& Team::operations_for(const Step& step, int rank) {
  const bool apart = !shards_.empty() && step.in_shards();
  return *(apart ? shard_operations_ : operations_)[std::size_t(rank)];
}

Team::~Team() {
  closing_ = true;
  region_.add(1);
  region_.wake();
  for (std::thread& thread : threads_)
    thread.join();
}

void Team::start() {
  for (int rank = 1; rank < state_.ranks; ++rank)
    threads_.emplace_back([this, rank] { work(rank); });
}

void Team::enter() {
  prepare_thread(0);
}

void Team::prepare_thread(int rank) const {
  bind_to_core(cores_[std::size_t(rank)]);
  // A waiting step's sleeps are short, so the default slack of 50 us is reduced to 1 us.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  prctl(PR_SET_NAME, "paceline-lane", 0UL, 0UL, 0UL);
  base::take_short_turns();
}

void Team::run(Step& step) {
  failure_ = nullptr;
  state_.restart();
  for (const auto& shard : shards_)
    shard->restart();
  if (state_.ranks > 1) {
    step_ = &step;
    busy_.store(std::uint32_t(state_.ranks - 1));
    region_.add(1);
    region_.wake();
  }
  run_rank(step, 0);
  while (const std::uint32_t left = busy_.load())
    busy_.wait_change(left, limits::barrier_spin);
  if (failure_) {
    state_.barrier.reset();
    for (const auto& shard : shards_)
      shard->barrier.reset();
    std::rethrow_exception(failure_);
  }
}

void Team::work(int rank) {
  prepare_thread(rank);
  std::uint32_t seen = 0;
  for (;;) {
    region_.wait_change(seen, limits::lane_spin);
    seen = region_.load();
    if (closing_)
      return;
    run_rank(*step_, rank);
    if (busy_.add(std::uint32_t(-1)) == 0)
      busy_.wake();
  }
}

void Team::run_rank(Step& step, int rank) {
  const FlushDenormals numeric_setting;
  CpuOperations& operations = operations_for(step, rank);
  operations.begin();
  try {
    step.run(operations);
  } catch (const Poisoned&) { // Another rank has the reason.
  } catch (...) {
    {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_)
        failure_ = std::current_exception();
    }
    fail_all();
  }
}

/// Makes ranks leave that wait for one that has left.
void Team::fail_all() {
  state_.barrier.poison();
  for (const auto& shard : shards_)
    shard->barrier.poison();
}

} // namespace paceline::gpu::cpu
