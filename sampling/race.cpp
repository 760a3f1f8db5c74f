#include "sampling/race.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/race.cpp"
#include "hwy/foreach_target.h" // compiles this file once per instruction set

#include "hwy/highway.h"

#include "sampling/rules_core.hpp"

#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace paceline::sampling::row::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using U = hn::RebindToUnsigned<F>;
using VF = hn::Vec<F>;
using VU = hn::Vec<U>;

/// Who has the lowest score so far; among equals, who came first.
struct Leader {
  std::span<const float> p;
  const DrawKey& key;
  std::int32_t token = -1;
  double score = std::numeric_limits<double>::infinity();

  void enter(std::size_t challenger) {
    if (!(p[challenger] > 0))
      return;
    const double s = race_score(key, std::uint32_t(challenger), p[challenger]);
    if (token < 0 || s < score) {
      token = std::int32_t(challenger);
      score = s;
    }
  }
};

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void multiply(VU a, std::uint32_t factor, VU& high, VU& low) {
  const U u;
  const hn::RepartitionToWide<U> wide;
  const VU m = hn::Set(u, factor);
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(u, hn::ShiftRight<32>(hn::BitCast(wide, a))), m);
  high = hn::OddEven(hn::BitCast(u, odd), hn::BitCast(u, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(u, hn::ShiftLeft<32>(odd)), hn::BitCast(u, even));
}

/// Philox blocks, one per lane; their counters differ in word 0 only.
struct Blocks {
  VU word[4];
};

HWY_INLINE Blocks philox_blocks(VU index, const DrawKey& key) {
  const U u;
  const PhiloxBlock counter = noise_counter(key, 0);
  auto key0 = std::uint32_t(key.seed);
  auto key1 = std::uint32_t(key.seed >> 32);
  Blocks b{{index, hn::Set(u, counter.word[1]), hn::Set(u, counter.word[2]),
            hn::Set(u, counter.word[3])}};
  for (int round = 0; round < philox_rounds; ++round) {
    VU high0, low0, high1, low1;
    multiply(b.word[0], philox_m0, high0, low0);
    multiply(b.word[2], philox_m1, high1, low1);
    b.word[0] = hn::Xor(hn::Xor(high1, b.word[1]), hn::Set(u, key0));
    b.word[1] = low1;
    b.word[2] = hn::Xor(hn::Xor(high0, b.word[3]), hn::Set(u, key1));
    b.word[3] = low0;
    key0 += philox_w0;
    key1 += philox_w1;
  }
  return b;
}

/// At most word * 2^-32, less what the rounding of a product may add.
HWY_INLINE VF lower_bound(VU word) {
  const VU halved = hn::ShiftRight<1>(word); // fits the signed type that converts
  return hn::Mul(hn::ConvertTo(F(), hn::BitCast(hn::RebindToSigned<F>(), halved)),
                 hn::Set(F(), 0x1p-31f * (1 - 0x1p-20f)));
}

/// Enters tokens first .. first + 4 lanes. A token's score is at least word * 2^-32 / p, because
/// -log(1 - v) >= v: only the few whose bound undercuts the leader are scored in full.
HWY_INLINE void enter_vectors(std::size_t first, Leader& leader) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const float* p = &leader.p[first];
  const VF row[4] = {hn::LoadU(f, p), hn::LoadU(f, p + lanes), hn::LoadU(f, p + 2 * lanes),
                     hn::LoadU(f, p + 3 * lanes)};
  const VF most = hn::Max(hn::Max(row[0], row[1]), hn::Max(row[2], row[3]));
  if (hn::AllFalse(f, hn::Gt(most, hn::Zero(f))))
    return;
  const Blocks b = philox_blocks(hn::Iota(U(), std::uint32_t(first / 4)), leader.key);
  HWY_ALIGN float bound[4 * hn::MaxLanes(f)];
  hn::StoreInterleaved4(lower_bound(b.word[0]), lower_bound(b.word[1]), lower_bound(b.word[2]),
                        lower_bound(b.word[3]), f, bound);
  for (std::size_t j = 0; j < 4; ++j) {
    const VF limit = hn::Mul(hn::Set(f, float(leader.score)), row[j]);
    if (hn::AllFalse(f, hn::Lt(hn::Load(f, bound + j * lanes), limit)))
      continue;
    for (std::size_t k = j * lanes; k < (j + 1) * lanes; ++k)
      if (double(bound[k]) < leader.score * double(p[k]))
        leader.enter(first + k);
  }
}
#endif

std::int32_t Race(std::span<const float> p, const DrawKey& key) {
  Leader leader{p, key};
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const std::size_t step = 4 * hn::Lanes(F());
  for (; i + step <= p.size(); i += step)
    enter_vectors(i, leader);
#endif
  for (; i < p.size(); ++i)
    leader.enter(i);
  return leader.token;
}

} // namespace paceline::sampling::row::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::sampling::row {

HWY_EXPORT(Race);

std::int32_t race(std::span<const float> p, const DrawKey& key) {
  return HWY_DYNAMIC_DISPATCH(Race)(p, key);
}

} // namespace paceline::sampling::row
#endif
