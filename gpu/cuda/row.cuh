// Passes of one block over one row of logits or probabilities, and the order among its tokens: the
// highest value first, the lower id first among equals, as in sampling/nucleus.hpp. All threads of
// the block call a function together and get the same result.
#pragma once

#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"
#include "sampling/row_kernels.hpp"
#include "sampling/rules_core.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace paceline::gpu::cuda::kernels {

using Mass = unsigned long long;

/// Masses from several keys on, summed together.
inline constexpr int key_count = 3;
struct Masses {
  Mass of[key_count] = {};
};
struct AddEach {
  __device__ __forceinline__ Masses operator()(Masses a, const Masses& b) const {
#pragma unroll
    for (int i = 0; i < key_count; ++i)
      a.of[i] += b.of[i];
    return a;
  }
};
template <class Take>
__device__ __forceinline__ Masses taken(Masses from, Take take) {
#pragma unroll
  for (int i = 0; i < key_count; ++i)
    from.of[i] = take(from.of[i]);
  return from;
}
__device__ __forceinline__ Masses from_lane_xor(const Masses& m, int mask) {
  return taken(m, [=](Mass one) { return from_lane_xor(one, mask); });
}
__device__ __forceinline__ Masses from_lane_below(const Masses& m, int offset) {
  return taken(m, [=](Mass one) { return from_lane_below(one, offset); });
}
__device__ __forceinline__ Masses from_lane(const Masses& m, int lane) {
  return taken(m, [=](Mass one) { return from_lane(one, lane); });
}

/// Returns std::min by value, since device code has no address of a host's constant.
template <class T>
__device__ __forceinline__ T lower_of(T a, T b) {
  return b < a ? b : a;
}

inline constexpr float greatest = std::numeric_limits<float>::max();
inline constexpr int pool_max = 2048;

struct RowShared {
  double sums[block_warps_max];
  Mass masses[block_warps_max];
  Masses many[block_warps_max];
  std::uint32_t words[block_warps_max];
  Scored scored[block_warps_max];
  double inversion[vocabulary_max / sampling::inversion_block];
  float pool_values[pool_max];
  std::int32_t pool_ids[pool_max];
  std::int32_t pool_count;
  sampling::InversionEnd end; ///< Found by one thread for all, as is the token.
  float end_weights[sampling::inversion_block];
  std::int32_t token;
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

/// A row as a block sees it: +infinity is the greatest finite value.
class Row {
public:
  __device__ Row(const float* values, int size, RowShared& shared)
      : values_(values), size_(size), shared_(shared) {}

  __device__ int size() const { return size_; }
  __device__ RowShared& shared() const { return shared_; }
  __device__ float operator[](int i) const {
    const float x = values_[i];
    return lower_of(x, greatest);
  }

  /// Calls function(i, value) for all tokens, each on a thread that is its own in all passes.
  template <class Function>
  __device__ void each(Function function) const {
    constexpr int ahead = 4; // Numbers that a thread reads at once.
    const int step = int(blockDim.x);
    int i = int(threadIdx.x);
    for (; i + (ahead - 1) * step < size_; i += ahead * step) {
      float x[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        x[k] = (*this)[i + k * step];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        function(i + k * step, x[k]);
    }
    for (; i < size_; i += step)
      function(i, (*this)[i]);
  }
  __device__ double total(double mine) const {
    return block_reduce(mine, Add(), shared_.sums);
  }
  __device__ Mass total(Mass mine) const {
    return block_reduce(mine, Add(), shared_.masses);
  }
  __device__ Masses total(const Masses& mine) const {
    return block_reduce(mine, AddEach(), shared_.many);
  }
  __device__ Scored first(Scored mine) const {
    return block_reduce(mine, First(), shared_.scored);
  }
  /// Returns the row's highest value; NaN if there is one.
  __device__ float highest() const {
    std::uint32_t most = 0;
    each([&](int, float x) { most = std::max(most, key_of(x)); });
    const auto higher = [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); };
    return value_of(block_reduce(most, higher, shared_.words));
  }

private:
  const float* values_;
  int size_;
  RowShared& shared_;
};

/// The cut of a row: values above that of `key` stay, and the first `ties` of those equal to it,
/// which are those up to `last_tie`.
struct Cut {
  std::uint32_t key = 0;
  Mass ties = 0;
  std::int32_t last_tie = std::numeric_limits<std::int32_t>::max();

  __device__ bool keeps(int id, float x) const {
    const std::uint32_t k = key_of(x);
    return k > key || (k == key && id <= last_tie);
  }
};

/// The tokens of a row among which a cut can be, copied to shared memory if they are few.
class Pool {
public:
  __device__ explicit Pool(const Row& row) : row_(row) {}

  /// Takes the tokens with values of at least `least` and drops those taken before.
  __device__ void collect(float least) {
    RowShared& s = row_.shared();
    __syncthreads();
    if (threadIdx.x == 0)
      s.pool_count = 0;
    __syncthreads();
    row_.each([&](int id, float x) {
      if (!(x >= least))
        return;
      const int place = atomicAdd(&s.pool_count, 1);
      if (place >= pool_max)
        return;
      s.pool_values[place] = x;
      s.pool_ids[place] = id;
    });
    __syncthreads();
    few_ = s.pool_count <= pool_max;
    count_ = s.pool_count;
    lowest_ = key_of(least);
  }
  __device__ void take_all() {
    few_ = false;
    lowest_ = key_of(-INFINITY);
  }

  /// Calls function(id, value) for all tokens, in unspecified order.
  template <class Function>
  __device__ void each(Function function) const {
    if (!few_)
      return row_.each(function);
    const RowShared& s = row_.shared();
    for (int i = int(threadIdx.x); i < count_; i += int(blockDim.x))
      function(s.pool_ids[i], s.pool_values[i]);
  }
  /// Returns the sum of of(id, value). They are whole numbers, so the order does not matter.
  template <class Of>
  __device__ Mass total(Of of) const {
    Mass mine = 0;
    each([&](int id, float x) { mine += of(id, x); });
    return row_.total(mine);
  }
  /// Returns the sums of of(id, value) over the tokens from each of the keys on.
  template <class Of>
  __device__ Masses totals_from(const std::uint32_t (&keys)[key_count], Of of) const {
    Masses mine;
    each([&](int id, float x) {
      const std::uint32_t key = key_of(x);
      if (key < keys[0])
        return;
      const Mass mass = of(id, x);
#pragma unroll
      for (int i = 0; i < key_count; ++i)
        mine.of[i] += key >= keys[i] ? mass : 0;
    });
    return row_.total(mine);
  }
  __device__ std::uint32_t lowest() const {
    return lowest_;
  }
  __device__ int row_size() const {
    return row_.size();
  }

private:
  const Row& row_;
  bool few_ = false;
  int count_ = 0;
  std::uint32_t lowest_ = 0;
};

/// Returns the highest key at which a mass, which grows as keys fall, reaches `goal`. It must reach
/// it at `lowest`. from(keys): the masses at several keys, in ascending order.
template <class From>
__device__ std::uint32_t highest_reaching(std::uint32_t lowest, double goal, From from) {
  Mass low = lowest;
  for (Mass high = Mass(1) << 32; high - low > 1;) {
    const Mass step = (high - low + key_count) / (key_count + 1);
    std::uint32_t keys[key_count];
#pragma unroll
    for (int i = 0; i < key_count; ++i)
      keys[i] = std::uint32_t(lower_of(low + Mass(i + 1) * step, high - 1));
    const Masses masses = from(keys);
#pragma unroll
    for (int i = 0; i < key_count; ++i)
      if (double(masses.of[i]) >= goal)
        low = keys[i];
      else
        high = lower_of(high, Mass(keys[i]));
  }
  return std::uint32_t(low);
}

/// Returns the id of the last tie that stays if not all tokens of the key do.
__device__ inline std::int32_t last_tie_of(const Pool& pool, const Cut& cut) {
  const auto ties_up_to = [&](std::int32_t last) {
    return pool.total([&](int id, float x) { return Mass(key_of(x) == cut.key && id <= last); });
  };
  constexpr std::int32_t all = std::numeric_limits<std::int32_t>::max();
  if (ties_up_to(all) <= cut.ties)
    return all;
  std::int32_t low = -1; // Up to here there are too few.
  for (std::int32_t high = pool.row_size() - 1; high - low > 1;) {
    const std::int32_t middle = low + (high - low) / 2;
    if (ties_up_to(middle) < cut.ties)
      low = middle;
    else
      high = middle;
    if (high - low <= 1)
      return high;
  }
  return low + 1;
}

/// Returns the cut that keeps the first k tokens. 0 < k < row.size(). pool: receives the
/// candidates.
__device__ inline Cut top_k_cut(const Row& row, Pool& pool, int k) {
  pool.take_all();
  if (k <= int(blockDim.x)) { // Some k tokens reach the k-th of the threads' highest.
    float mine = -INFINITY;
    row.each([&](int, float x) { mine = fmaxf(mine, x); });
    const std::uint32_t own = key_of(mine);
    const std::uint32_t bound =
        highest_reaching(key_of(-INFINITY), double(k), [&](const auto& keys) {
          Masses reached;
#pragma unroll
          for (int i = 0; i < key_count; ++i)
            reached.of[i] = own >= keys[i];
          return row.total(reached);
        });
    pool.collect(value_of(bound));
  }
  Cut cut;
  cut.key = highest_reaching(pool.lowest(), double(k), [&](const auto& keys) {
    return pool.totals_from(keys, [](int, float) { return Mass(1); });
  });
  cut.ties = Mass(k) - pool.total([&](int, float x) { return Mass(key_of(x) > cut.key); });
  cut.last_tie = last_tie_of(pool, cut);
  return cut;
}

/// Returns the cut that keeps the shortest run of first tokens whose mass reaches the share top_p
/// of what `cut` keeps. pool: has all that `cut` keeps; unused if it keeps everything (not is_cut).
__device__ inline Cut top_p_cut(const Row& row, Pool& pool, float top_p,
                                sampling::row::Exponential e, const Cut& cut, bool is_cut) {
  if (!is_cut)
    pool.take_all();
  const auto mass = [&](int id, float x) { return cut.keeps(id, x) ? mass_of(x, e) : Mass(0); };
  const Mass total = pool.total(mass);
  const double goal = std::max(double(top_p) * double(total), 1.0); // Keeps at least the likeliest.
  if (!is_cut) {
    // All tokens below this value together have less mass than total - goal.
    const double share = (double(total) - goal) / double(row.size()) * sampling::row::mass_unit;
    if (share > 0)
      pool.collect(e.highest + float(log(share)) / e.rate);
    if (double(pool.total(mass)) < goal)
      pool.take_all();
  }
  Cut inner;
  inner.key = highest_reaching(pool.lowest(), goal,
                               [&](const auto& keys) { return pool.totals_from(keys, mass); });
  const Mass above =
      pool.total([&](int id, float x) { return key_of(x) > inner.key ? mass(id, x) : Mass(0); });
  const Mass each = mass_of(value_of(inner.key), e);
  inner.ties = Mass(ceil((goal - double(above)) / double(each)));
  inner.last_tie =
      std::min(last_tie_of(pool, inner), inner.key == cut.key ? cut.last_tie : inner.last_tie);
  return inner;
}

// ---- Draws -------------------------------------------------------------------------------------

struct PlainRow {
  const float* p;
  const double* sums; ///< Sums of whole blocks of the inversion.
  PACELINE_HOST_DEVICE float weight(std::size_t i) const { return p[i]; }
  PACELINE_HOST_DEVICE double sum(std::size_t first, std::size_t) const {
    return sums[first / sampling::inversion_block];
  }
};
struct ResidualRow {
  const float* p;
  const float* q;
  const double* sums;
  PACELINE_HOST_DEVICE float weight(std::size_t i) const { return sampling::residual(p[i], q[i]); }
  PACELINE_HOST_DEVICE double sum(std::size_t first, std::size_t) const {
    return sums[first / sampling::inversion_block];
  }
};

/// A block's weights, in shared memory.
struct EndRow {
  const float* weights;
  std::size_t first;
  PACELINE_HOST_DEVICE float weight(std::size_t i) const { return weights[i - first]; }
};

/// Does sampling::invert with a block: warps sum, one thread finds the token. -1: no mass.
template <class Weights>
__device__ std::int32_t invert(const Weights& weights, int size, double u, RowShared& shared) {
  constexpr int block = int(sampling::inversion_block);
  constexpr int lane_weights = block / warp_lanes;
  const int warps = int(blockDim.x) / warp_lanes;
  for (int b = warp_index(); b * block < size; b += warps) {
    float own[lane_weights];
#pragma unroll
    for (int k = 0; k < lane_weights; ++k) {
      const int i = b * block + k * warp_lanes + lane_index();
      own[k] = i < size ? weights.weight(std::size_t(i)) : 0.0f;
    }
    double sum = 0;
#pragma unroll
    for (int k = 0; k < lane_weights; ++k)
      sum += double(own[k]);
    sum = warp_reduce(sum, Add());
    if (lane_index() == 0)
      shared.inversion[b] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0)
    shared.end = sampling::find_block(weights, std::size_t(size), u);
  __syncthreads();
  const auto first = int(shared.end.first);
  for (int i = int(threadIdx.x); i < block && first + i < size; i += int(blockDim.x))
    shared.end_weights[i] = weights.weight(std::size_t(first + i));
  __syncthreads();
  if (threadIdx.x == 0)
    shared.token = sampling::find_token(EndRow{shared.end_weights, shared.end.first},
                                        std::size_t(size), shared.end);
  __syncthreads();
  return shared.token;
}

__device__ inline std::int32_t draw(const float* p, int size, const sampling::DrawKey& key,
                                    RowShared& shared) {
  return invert(PlainRow{p, shared.inversion}, size, sampling::uniform(key), shared);
}

/// Does sampling::draw_coupled with a block: each thread first holds a race of its own tokens.
__device__ inline std::int32_t draw_gumbel_max(const float* p, int size,
                                               const sampling::DrawKey& key, RowShared& shared) {
  constexpr int ahead = 4; // Groups that a thread reads at once.
  Scored leader{0, -1};    // Scores are negative, so that the lowest time comes first.
  const int step = int(blockDim.x);
  for (int first = int(threadIdx.x); first * 4 < size; first += ahead * step) {
    float shares[ahead][4];
#pragma unroll
    for (int k = 0; k < ahead; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (const int token = (first + k * step) * 4 + i; token < size)
          shares[k][i] = p[token];
        else
          shares[k][i] = 0;
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const auto& own = shares[k];
      if (!(own[0] > 0 || own[1] > 0 || own[2] > 0 || own[3] > 0))
        continue;
      const int group = first + k * step;
      const sampling::PhiloxBlock noise = sampling::noise(key, std::uint32_t(group));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // -log(1 - v) >= v rules most tokens out without their logarithm.
        const double least = double(noise.word[i]) * 0x1p-32;
        if (!(own[i] > 0) || (leader.id >= 0 && least > -leader.score * double(own[i])))
          continue;
        const int token = group * 4 + i;
        const Scored mine{-sampling::gumbel_score(key, std::uint32_t(token), own[i]), token};
        leader = First()(leader, mine);
      }
    }
  }
  return block_reduce(leader, First(), shared.scored).id;
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
