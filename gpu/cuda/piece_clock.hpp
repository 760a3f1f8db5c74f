// How long a lane's pieces take, so that the thread that waits for one neither spins all the time
// nor sleeps past its end.
#pragma once

#include "gpu/lane.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <tuple>

namespace paceline::gpu::cuda {

/// Expects of a piece the least that the last four of its kind, rows and sequences took, so that
/// one that took long for once, or whose end was seen late, makes no thread sleep. Pieces end in
/// the order of their launches, and one begins when it is launched or when the one before it ends.
/// Threads: one.
class PieceClock {
public:
  using Clock = std::chrono::steady_clock;

  void launch(const Work& work, Clock::time_point now);
  /// Returns how long the earliest piece that runs is likely to take from now on; zero or less
  /// where it is late, and zero where fewer than four like it have ended.
  Clock::duration left(Clock::time_point now) const;
  /// Notes that the earliest piece that runs was seen to have ended.
  void finish(Clock::time_point now);
  /// Forgets the pieces that run.
  void abandon();

private:
  using Key = std::tuple<Work::Kind, int, int>;
  struct Piece {
    Key key;
    Clock::time_point begin;
  };
  struct Times {
    std::array<Clock::duration, 4> last{}; ///< Zero: none yet.
    std::size_t next = 0;
  };
  std::deque<Piece> running_;
  std::map<Key, Times> took_;
};

} // namespace paceline::gpu::cuda
