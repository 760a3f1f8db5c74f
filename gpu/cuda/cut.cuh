// Where a row is cut by rank (top-k) or by mass (top-p), as in sampling/nucleus.hpp: the tokens
// from one of them on stay, in the order of their ranks. A search narrows the range of ranks that
// the last one to stay may have, a pass over the row each time, until few tokens are left, which
// are then compared with each other.
#pragma once

#include "gpu/cuda/row.cuh"

#include <algorithm>

namespace paceline::gpu::cuda::kernels {

/// The tokens from the one with rank `last` on stay.
struct Cut {
  Rank last = 0;
  __device__ bool keeps(int id, float x) const { return rank_of(id, x) >= last; }
};

/// Masses and numbers of the tokens from several ranks on.
inline constexpr int pivots = 4;
struct FromPivots {
  Mass mass[pivots] = {};
  std::uint32_t count[pivots] = {};
};
struct AddEach {
  __device__ __forceinline__ FromPivots operator()(FromPivots a, const FromPivots& b) const {
#pragma unroll
    for (int i = 0; i < pivots; ++i) {
      a.mass[i] += b.mass[i];
      a.count[i] += b.count[i];
    }
    return a;
  }
};
template <class Take>
__device__ __forceinline__ FromPivots taken(FromPivots from, Take take) {
#pragma unroll
  for (int i = 0; i < pivots; ++i) {
    from.mass[i] = take(from.mass[i]);
    from.count[i] = take(from.count[i]);
  }
  return from;
}
__device__ __forceinline__ FromPivots from_lane_xor(const FromPivots& f, int mask) {
  return taken(f, [=](auto one) { return from_lane_xor(one, mask); });
}
__device__ __forceinline__ FromPivots from_lane_below(const FromPivots& f, int offset) {
  return taken(f, [=](auto one) { return from_lane_below(one, offset); });
}
__device__ __forceinline__ FromPivots from_lane(const FromPivots& f, int lane) {
  return taken(f, [=](auto one) { return from_lane(one, lane); });
}

/// Returns the i-th of the ranks that divide a range into parts of equal width, in logits or in
/// ranks.
__device__ inline Rank pivot(Rank low, Rank high, int i, bool by_value) {
  const Rank in_ranks = low + (high - low) / pivots * Rank(i);
  if (!by_value || i == 0)
    return in_ranks;
  const float first = value_of(low);
  const float x = first + (value_of(high) - first) * (float(i) / pivots);
  return x == x ? lower_of(std::max(rank_from(x), low), high) : in_ranks;
}

/// Returns the candidate with which the mass of those before it, and `above`, reaches the goal. All
/// blocks hold the same candidates, of which their warps take one after the other.
__device__ inline Rank reaching(const Row& row, int count, Mass above, Mass goal) {
  const Cluster& cluster = row.cluster();
  RowShared& s = row.shared();
  for (int c = cluster.warp(); c < count; c += cluster.warps()) {
    const Candidate own = s.candidates[c];
    Mass before = 0;
    for (int i = lane_index(); i < count; i += warp_lanes)
      before += s.candidates[i].rank > own.rank ? s.candidates[i].mass : 0;
    before = above + warp_reduce(before, Add());
    if (before < goal && before + own.mass >= goal)
      cluster.tell(s.found, own.rank);
  }
  cluster.barrier();
  return s.found;
}

/// Returns the cut that keeps the shortest run of first tokens whose mass reaches `goal`, which
/// those with ranks from `lowest` on reach together. likely: a rank from which they should do as
/// well. best: the row's highest rank. mass_of(x): the mass of a token with this logit.
template <class MassOf>
__device__ Cut cut_at(const Row& row, Rank lowest, Rank likely, Rank best, Mass goal,
                      MassOf mass_of) {
  constexpr int by_value = 4; // Passes that divide by logits, which are more even than ranks.
  RowShared& s = row.shared();
  Rank low = likely;
  Rank high = best + 1;
  Mass above = 0; // That of tokens with ranks from `high` on.
  for (int pass = 0;; ++pass) {
    Rank from[pivots];
#pragma unroll
    for (int i = 0; i < pivots; ++i)
      from[i] = pivot(low, high, i, pass < by_value);
    FromPivots mine;
    row.each([&](int id, float x) {
      const Rank rank = rank_of(id, x);
      if (rank < low || rank >= high)
        return;
      const Mass mass = mass_of(x);
      mine.mass[0] += mass;
      ++mine.count[0];
#pragma unroll
      for (int i = 1; i < pivots; ++i) {
        mine.mass[i] += rank >= from[i] ? mass : 0;
        mine.count[i] += rank >= from[i] ? 1 : 0;
      }
    });
    const FromPivots all = row.cluster().reduce(mine, AddEach());
    if (above + all.mass[0] < goal && low > lowest) { // What is likely has not come true.
      low = lowest;
      continue;
    }
    std::uint32_t count = all.count[0];
    std::uint32_t above_count = 0;
    Mass next_above = above;
#pragma unroll
    for (int i = 1; i < pivots; ++i)
      if (above + all.mass[i] >= goal) {
        low = from[i];
        count = all.count[i];
      }
#pragma unroll
    for (int i = pivots - 1; i > 0; --i)
      if (above + all.mass[i] < goal) {
        high = from[i];
        next_above = above + all.mass[i];
        above_count = all.count[i];
      }
    above = next_above;
    count -= above_count;
    if (count > candidates_max)
      continue;
    row.each([&](int id, float x) {
      const Rank rank = rank_of(id, x);
      if (rank < low || rank >= high)
        return;
      const int place = atomicAdd(&row.cluster().of_first(s.candidate_count), 1);
      row.cluster().tell_alone(s.candidates[place], Candidate{rank, mass_of(x)});
    });
    row.cluster().barrier();
    const Cut cut{reaching(row, int(count), above, goal)};
    if (row.cluster().leads())
      s.candidate_count = 0; // Of all blocks'.
    return cut;
  }
}

/// Returns a rank from which at least k tokens are: that of the k-th of the highest of groups of
/// tokens, if there are so many; else 0. own: the highest of this thread's tokens.
__device__ inline Rank rank_of_kth_group(const Row& row, Rank own, int k) {
  const Cluster& cluster = row.cluster();
  int lanes = warp_lanes; // Whose tokens are a group.
  while (lanes > 1 && cluster.threads() / lanes < 2 * k &&
         cluster.threads() / (lanes / 2) <= candidates_max)
    lanes /= 2;
  const int groups = cluster.threads() / lanes;
  if (k > groups || groups > candidates_max)
    return 0;
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    own = std::max(own, from_lane_xor(own, offset));
  const int group = cluster.thread() / lanes;
  if (lane_index() % lanes == 0) // Who has no tokens is behind all who have.
    cluster.tell_alone(row.shared().candidates[group], Candidate{own > 0 ? own : Rank(group), 1});
  cluster.barrier();
  return reaching(row, groups, 0, Mass(k));
}

/// Returns the cut that keeps the first k tokens. 0 < k < row.size(). own: the highest rank of this
/// thread's tokens; best: that of all.
__device__ inline Cut top_k_cut(const Row& row, Rank own, Rank best, int k) {
  const Rank bound = rank_of_kth_group(row, own, k);
  return cut_at(row, 0, bound, best, Mass(k), [](float) { return Mass(1); });
}

/// Returns the cut that keeps the shortest run of first tokens whose mass reaches the share top_p
/// of what `cut` keeps.
__device__ inline Cut top_p_cut(const Row& row, float top_p, sampling::row::Exponential e,
                                const Cut& cut, Rank best) {
  Mass mine = 0;
  row.each([&](int id, float x) { mine += cut.keeps(id, x) ? mass_of(x, e) : 0; });
  const Mass total = row.cluster().reduce(mine, Add());
  const double goal = std::max(ceil(double(top_p) * double(total)), 1.0); // At least the likeliest.
  // All tokens below this share together have less mass than total - goal, or none.
  const double share =
      std::max((double(total) - goal) / double(row.size()), 1.0) * sampling::row::mass_unit;
  const Rank likely = rank_from(e.highest + float(log(share)) / e.rate);
  return cut_at(row, cut.last, std::max(likely, cut.last), best, Mass(goal),
                [&](float x) { return mass_of(x, e); });
}

} // namespace paceline::gpu::cuda::kernels
