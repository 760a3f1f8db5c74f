#include "gpu/cpu/team.hpp"

#include "base/short_turns.hpp"
#include "gpu/cpu/denormals.hpp"
#include "gpu/cpu/topology.hpp"

#include <sys/prctl.h>

namespace paceline::gpu::cpu {

Team::Team(const Kernels& kernels, std::vector<int> cores)
    : cores_(std::move(cores)), state_(kernels, int(cores_.size())) {
  for (int rank = 0; rank < state_.ranks; ++rank)
    operations_.push_back(std::make_unique<CpuOperations>(state_, rank));
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
  // Short sleeps of a waiting step are meant as they are said: no slack of the default 50 us.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  prctl(PR_SET_NAME, "paceline-lane", 0UL, 0UL, 0UL);
  base::take_short_turns();
}

void Team::run(Step& step) {
  failure_ = nullptr;
  for (TileQueue& queue : state_.tiles)
    queue.restart();
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
  CpuOperations& operations = *operations_[std::size_t(rank)];
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
    state_.barrier.poison();
  }
}

} // namespace paceline::gpu::cpu
