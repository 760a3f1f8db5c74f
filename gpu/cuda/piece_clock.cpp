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
  if (took == took_.end())
    return Clock::duration::zero();
  const Clock::duration least = std::ranges::min(took->second.last);
  return least == Clock::duration::zero() ? least : piece.begin + least - now;
}

void PieceClock::finish(Clock::time_point now) {
  const Piece piece = running_.front();
  running_.pop_front();
  if (!running_.empty())
    running_.front().begin = std::max(running_.front().begin, now);
  if (took_.size() >= limits::piece_kinds_max)
    took_.clear();
  Times& times = took_[piece.key];
  times.last[times.next++ % times.last.size()] = now - piece.begin;
}

void PieceClock::abandon() {
  running_.clear();
}

} // namespace paceline::gpu::cuda
