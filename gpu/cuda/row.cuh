// Passes over one row of logits or probabilities by the blocks that share it, and the order among
// its tokens: the highest value first, the lower id first among equals, as in sampling/nucleus.hpp.
// All threads of a cluster call a function together and get the same result, whose bits do not
// depend on how many blocks there are: what is summed over threads are whole numbers.
#pragma once

#include "gpu/cuda/cluster.cuh"
#include "gpu/cuda/kernels.hpp"
#include "sampling/row_kernels.hpp"
#include "sampling/rules_core.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace paceline::gpu::cuda::kernels {

using Mass = unsigned long long;

/// The place of a token in a row's order, the higher the earlier: the key of its value, then what
/// its id leaves of the highest one. 0: no token.
using Rank = unsigned long long;
inline constexpr int id_bits = 19;
static_assert(vocabulary_max == 1 << id_bits);

struct Candidate {
  Rank rank;
  Mass mass;
};
inline constexpr int candidates_max = 512;

inline constexpr float greatest = std::numeric_limits<float>::max();

struct RowShared {
  ClusterShared cluster;
  double inversion[vocabulary_max / sampling::inversion_block];
  Candidate candidates[candidates_max];
  std::int32_t candidate_count; ///< The first block's counts.
  Rank found;
  float end_weights[sampling::inversion_block];
  std::int32_t token; ///< Found by one warp for the block.
};

/// Maps values to unsigned numbers in the same order, with NaN the highest; both zeros are equal.
__device__ __forceinline__ std::uint32_t key_of(float x) {
  if (x != x)
    return ~0u;
  const auto bits = std::bit_cast<std::uint32_t>(x == 0 ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(std::uint32_t key) {
  return std::bit_cast<float>(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/// Returns the lowest rank with this value, and that of a token.
__device__ __forceinline__ Rank rank_from(float x) {
  return Rank(key_of(x)) << id_bits;
}
__device__ __forceinline__ Rank rank_of(int id, float x) {
  return rank_from(x) | Rank(vocabulary_max - 1 - id);
}
__device__ __forceinline__ float value_of(Rank rank) {
  return value_of(std::uint32_t(rank >> id_bits));
}
__device__ __forceinline__ std::int32_t id_of(Rank rank) {
  return vocabulary_max - 1 - std::int32_t(rank % vocabulary_max);
}

/// Computes exp(x) for x <= 0, and 0 for subnormal results, in the same steps as
/// sampling/row_kernels.cpp, so that both have the same weights.
__device__ __forceinline__ float exp_of_negative(float x) {
  constexpr float shift = 0x1.8p23f;
  const float shifted = fmaf(x, 1.44269504f, shift);
  const float whole = shifted - shift;
  float r = fmaf(-whole, 0.693359375f, x);
  r = fmaf(-whole, -2.12194440e-4f, r);
  const float r2 = r * r;
  const float low = fmaf(r2, fmaf(r, 1.0f / 6, 0.5f), r + 1);
  const float high = fmaf(r2, fmaf(r, 1.0f / 5040, 1.0f / 720), fmaf(r, 1.0f / 120, 1.0f / 24));
  const float sum = fmaf(r2 * r2, high, low);
  const auto power =
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u);
  return x >= -87 ? sum * power : 0.0f;
}

__device__ __forceinline__ float weight_of(float x, sampling::row::Exponential e) {
  return exp_of_negative((x - e.highest) * e.rate);
}
__device__ __forceinline__ Mass mass_of(float x, sampling::row::Exponential e) {
  return Mass(floorf(weight_of(x, e) * float(1 / sampling::row::mass_unit)));
}

/// The unit of sums of weights and shares: a weight of 2^-20 and more is a whole number of them,
/// and the greatest sum, of vocabulary_max ones, fits.
inline constexpr float share_unit = 0x1p-44f;
__device__ __forceinline__ Mass shares_of(float weight) {
  return Mass(weight * (1 / share_unit));
}

/// A row as its threads see it: +infinity is the greatest finite value.
class Row {
public:
  __device__ Row(const float* values, int size, RowShared& shared, Cluster& cluster)
      : values_(values), size_(size), shared_(shared), cluster_(cluster) {}

  __device__ int size() const { return size_; }
  __device__ RowShared& shared() const { return shared_; }
  __device__ Cluster& cluster() const { return cluster_; }
  __device__ float operator[](int i) const {
    const float x = values_[i];
    return lower_of(x, greatest);
  }

  /// Calls function(i, value) for all tokens, each on a thread that is its own in all passes.
  template <class Function>
  __device__ void each(Function function) const {
    constexpr int ahead = 8; // Numbers that a thread reads at once.
    const int step = cluster_.threads();
    for (int i = cluster_.thread(); i < size_; i += ahead * step) {
      float x[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (i + k * step < size_)
          x[k] = (*this)[i + k * step];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (i + k * step < size_)
          function(i + k * step, x[k]);
    }
  }
  /// Returns the highest rank of this thread's tokens.
  __device__ Rank own_best() const {
    std::uint32_t key = 0;
    int id = 0;
    each([&](int i, float x) {
      if (const std::uint32_t k = key_of(x); k > key) {
        key = k;
        id = i;
      }
    });
    return key > 0 ? Rank(key) << id_bits | Rank(vocabulary_max - 1 - id) : 0;
  }
  /// Returns the highest rank, of that of NaN if there is one. own: that of this thread's tokens.
  __device__ Rank best(Rank own) const {
    return cluster_.reduce(own, [](Rank a, Rank b) { return std::max(a, b); });
  }
  /// Returns the sum of shares, which are whole numbers of share_unit.
  __device__ double total(Mass mine) const {
    return double(cluster_.reduce(mine, Add())) * double(share_unit);
  }
  __device__ Scored first(Scored mine) const {
    return cluster_.reduce(mine, First());
  }

private:
  const float* values_;
  int size_;
  RowShared& shared_;
  Cluster& cluster_;
};

// ---- Draws -------------------------------------------------------------------------------------

/// A row's residual with q.
struct Residual {
  const Row& p;
  const float* q;
  __device__ float operator[](int i) const { return sampling::residual(p[i], q[i]); }
};

/// A number of positive weight, which takes a sum from `below` beyond `goal`.
struct Passing {
  int index; ///< -1: no weight is positive.
  double below;
  double goal;
};
/// Finds the first of `count` weights with which their sum, on top of `below`, goes beyond a goal,
/// or where rounding leaves that out of reach the last positive one. goal_of(sum): the goal. A
/// warp's lanes call it together; the order of the sum depends on `count` alone.
template <class WeightOf, class GoalOf>
__device__ Passing find_passing(int count, double below, WeightOf weight_of, GoalOf goal_of) {
  const int each = divide_up(count, warp_lanes); // Weights of a lane.
  const int first = lane_index() * each;
  const int end = lower_of(first + each, count);
  double own = 0;
  for (int i = first; i < end; ++i)
    own += weight_of(i);
  double up_to = own;
  for (int offset = 1; offset < warp_lanes; offset *= 2) {
    const double before = __shfl_up_sync(all_lanes, up_to, unsigned(offset));
    if (lane_index() >= offset)
      up_to += before;
  }
  const double goal = goal_of(from_lane(up_to, warp_lanes - 1));
  const double before = __shfl_up_sync(all_lanes, up_to, 1u);
  const unsigned positive = __ballot_sync(all_lanes, own > 0);
  const unsigned beyond = __ballot_sync(all_lanes, own > 0 && below + up_to > goal);
  Passing passing{-1, below, goal};
  double sum = below + (lane_index() > 0 ? before : 0.0);
  for (int i = first; i < end && (sum <= goal || passing.index < 0); ++i)
    if (const double weight = weight_of(i); weight > 0) {
      passing = {i, sum, goal};
      sum += weight;
    }
  const int lane = beyond ? __ffs(int(beyond)) - 1 : positive ? 31 - __clz(int(positive)) : 0;
  return {from_lane(passing.index, lane), from_lane(passing.below, lane), goal};
}

/// Does sampling::invert: warps sum the blocks of the inversion, then a warp of each block of
/// threads finds the token. -1: no mass. Others may have written the weights just before.
template <class Weights>
__device__ std::int32_t invert(const Weights& weights, double u, const Row& row) {
  constexpr int block = int(sampling::inversion_block);
  constexpr int lane_weights = block / warp_lanes;
  const int size = row.size();
  RowShared& shared = row.shared();
  const Cluster& cluster = row.cluster();
  const auto weight_of = [&](int b, int k) { // The k-th of this lane's in the block.
    const int i = b * block + k * warp_lanes + lane_index();
    return i < size ? weights[i] : 0.0f;
  };
  cluster.barrier();
  for (int b = cluster.warp(); b * block < size; b += cluster.warps()) {
    float own[lane_weights];
#pragma unroll
    for (int k = 0; k < lane_weights; ++k)
      own[k] = weight_of(b, k);
    double sum = 0;
#pragma unroll
    for (int k = 0; k < lane_weights; ++k)
      sum += double(own[k]);
    cluster.tell(shared.inversion[b], warp_reduce(sum, Add()));
  }
  cluster.barrier();
  if (warp_index() == 0) {
    const Passing sums = find_passing(
        divide_up(size, block), 0, [&](int b) { return shared.inversion[b]; },
        [&](double total) { return u * total; });
    std::int32_t token = -1;
    if (sums.index >= 0) {
#pragma unroll
      for (int k = 0; k < lane_weights; ++k)
        shared.end_weights[k * warp_lanes + lane_index()] = weight_of(sums.index, k);
      __syncwarp();
      const Passing last = find_passing(
          block, sums.below, [&](int i) { return double(shared.end_weights[i]); },
          [&](double) { return sums.goal; });
      token = sums.index * block + last.index;
    }
    if (lane_index() == 0)
      shared.token = token;
  }
  __syncthreads();
  return shared.token;
}

__device__ inline std::int32_t draw(const Row& p, const sampling::DrawKey& key) {
  return invert(p, sampling::uniform(key), p);
}

/// Calls function(token, share, word of noise) for the tokens with a share, in fours.
template <class Function>
__device__ void each_with_noise(const Row& p, const sampling::DrawKey& key, Function function) {
  const int size = p.size();
  const int step = p.cluster().threads();
  for (int group = p.cluster().thread(); group * 4 < size; group += step) {
    float shares[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      shares[i] = group * 4 + i < size ? p[group * 4 + i] : 0.0f;
    if (!(shares[0] > 0 || shares[1] > 0 || shares[2] > 0 || shares[3] > 0))
      continue;
    const sampling::PhiloxBlock noise = sampling::noise(key, std::uint32_t(group));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (shares[i] > 0)
        function(group * 4 + i, shares[i], noise.word[i]);
  }
}

/// A function of its own, for it is long and seldom called.
__device__ __noinline__ inline double gumbel_score(const sampling::DrawKey& key, int token,
                                                   float share) {
  return sampling::gumbel_score(key, std::uint32_t(token), share);
}

/// Does sampling::draw_coupled. Others may have written the shares just before.
__device__ inline std::int32_t draw_gumbel_max(const Row& p, const sampling::DrawKey& key) {
  // With v of (w, w + 1) / 2^32 a token's number -log(1 - v) is between v and v / (1 - v), which
  // rules out most tokens without a logarithm. The margin is for rounding.
  constexpr float margin = 1.00001f;
  p.cluster().barrier();
  float soonest = INFINITY;
  each_with_noise(p, key, [&](int, float share, std::uint32_t word) {
    soonest = fminf(soonest, (float(word) + 1) / float(~word) / share);
  });
  const auto sooner = [](float a, float b) { return fminf(a, b); };
  const float latest = p.cluster().reduce(soonest, sooner) * margin;
  Scored leader{0, -1}; // Scores are negative, so that the lowest time comes first.
  each_with_noise(p, key, [&](int token, float share, std::uint32_t word) {
    if (float(word) * 0x1p-32f > latest * share * margin)
      return;
    const Scored mine{-gumbel_score(key, token, share), token};
    leader = First()(leader, mine);
  });
  return p.first(leader).id;
}

/// Finds the first `count` of the tokens for which score_of(i, x) gives an id, in order.
/// give(place, who) is called on all threads. Returns their number.
template <class ScoreOf, class Give>
__device__ int first_of(const Row& row, int count, ScoreOf score_of, Give give) {
  const auto best_behind = [&](Scored last) { // Looks among this thread's tokens.
    Scored best{0, -1};
    row.each([&](int i, float x) {
      const Scored own = score_of(i, x);
      if (last.id < 0 || comes_before(last, own))
        best = First()(best, own);
    });
    return best;
  };
  Scored mine = best_behind({0, -1});
  for (int place = 0; place < count; ++place) {
    const Scored who = row.first(mine);
    if (who.id < 0)
      return place;
    give(place, who);
    if (who.id == mine.id)
      mine = best_behind(who);
  }
  return count;
}

} // namespace paceline::gpu::cuda::kernels
