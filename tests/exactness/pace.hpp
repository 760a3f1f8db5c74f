// How long the pieces of a watched lane take. An adversary lets that depend on what was drawn.
#pragma once

#include "base/clock.hpp"
#include "gpu/lane.hpp"
#include "speculation/limits.hpp"

#include <cstdint>
#include <random>
#include <span>

namespace paceline::testing {

using namespace std::chrono_literals;

/// What makes a drafting pass late. Where several sequences share a pass, the first of them (the
/// oldest) decides.
enum class Malice {
  none,
  token,       ///< It drew token 0.
  after_token, ///< The pass before it drew token 0.
  unlikely,    ///< Its token had little q (without a q row: it drew an odd token).
  likely,      ///< Its token had much q (without a q row: it drew an even token).
  last_token,  ///< Its last draw, a fork's where there are any, was token 0.
  likely_fork, ///< The likeliest fork's token had much q, as above.
};

/// Mean lengths; a piece takes from half to one and a half of them.
struct Pace {
  base::Duration target = 2ms;
  base::Duration draft = 500us;
  base::Duration judging = 50us;
  Malice malice = Malice::none;
  base::Duration late_by = 3ms;
};

/// One lane's lengths, a function of the seed and of what its pieces drew.
class Pacemaker {
public:
  Pacemaker(const Pace& pace, std::uint64_t seed) : pace_(pace), random_(seed) {}

  /// drawn: by the piece that begins.
  base::Duration length(const gpu::Work& work, std::span<const gpu::ProposeTask> drawn) {
    const double jitter = 0.5 + double(random_() >> 11) * 0x1p-53;
    base::Duration length = base::from_seconds(base::seconds(mean(work)) * jitter);
    if (!drawn.empty() && late(watched(drawn)))
      length += pace_.late_by;
    return length;
  }

private:
  base::Duration mean(const gpu::Work& work) const {
    switch (work.kind) {
    case gpu::Work::Kind::draft: return pace_.draft;
    case gpu::Work::Kind::verify: return pace_.judging;
    default: return pace_.target;
    }
  }
  const gpu::ProposeTask& watched(std::span<const gpu::ProposeTask> drawn) const {
    if (pace_.malice == Malice::last_token)
      return drawn.back();
    for (const gpu::ProposeTask& task : drawn)
      if (pace_.malice == Malice::likely_fork &&
          task.attempt >> speculation::limits::frontier_bits != 0)
        return task;
    return drawn.front();
  }
  bool late(const gpu::ProposeTask& drawn) {
    const bool zero = drawn.token == 0;
    const bool odd = drawn.token % 2 == 1;
    constexpr float little = 0.4f;
    switch (pace_.malice) {
    case Malice::none: return false;
    case Malice::token:
    case Malice::last_token: return zero;
    case Malice::after_token: return std::exchange(zero_before_, zero);
    case Malice::unlikely: return drawn.q ? drawn.q[drawn.token] < little : odd;
    case Malice::likely_fork:
      if (drawn.attempt >> speculation::limits::frontier_bits == 0)
        return false;
      [[fallthrough]];
    case Malice::likely: return drawn.q ? drawn.q[drawn.token] >= little : !odd;
    }
    return false;
  }

  Pace pace_;
  std::mt19937_64 random_;
  bool zero_before_ = false;
};

} // namespace paceline::testing
