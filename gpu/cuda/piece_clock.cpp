#include "gpu/cuda/piece_clock.hpp"

#include "gpu/limits.hpp"

#include <algorithm>

namespace paceline::gpu::cuda {

void PieceClock::launch(const Work& work, Clock::time_point now) {
  running_.push_back({{work.kind, work.rows, work.sequences}, now});
}

PieceClock::Clock::duration PieceClock::left(Clock::time_point now) const {
  const Piece& piece = running_.front();
  const auto took = took_.find(piece.key);
  return took == took_.end() ? Clock::duration::zero() : piece.begin + took->second - now;
}

// A piece that was seen late, as its thread did not run, would make the thread sleep as long the
// next time, and so look right: what is shorter counts at once, what is longer only by an eighth.
void PieceClock::finish(Clock::time_point now) {
  const Piece piece = running_.front();
  running_.pop_front();
  if (!running_.empty())
    running_.front().begin = std::max(running_.front().begin, now);
  if (took_.size() >= limits::piece_kinds_max)
    took_.clear();
  const Clock::duration took = now - piece.begin;
  const auto [known, first] = took_.try_emplace(piece.key, took);
  if (!first)
    known->second = std::min(took, known->second + (took - known->second) / 8);
}

void PieceClock::abandon() {
  running_.clear();
}

} // namespace paceline::gpu::cuda
