#include "sampling/gumbel_max.hpp"

// SVE is off because its vectors have no size that a struct could hold; such machines have NEON.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/gumbel_max.cpp"
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

/// The token with the lowest score so far; among equals, the one that entered first.
struct Leader {
  std::span<const float> p;
  const DrawKey& key;
  std::int32_t token = -1;
  double score = std::numeric_limits<double>::infinity();

  void enter(std::size_t challenger) {
    if (!(p[challenger] > 0))
      return;
    const double s = gumbel_score(key, std::uint32_t(challenger), p[challenger]);
    if (token < 0 || s < score) {
      token = std::int32_t(challenger);
      score = s;
    }
  }
};

#if HWY_TARGET != HWY_SCALAR
using Wide = hn::RepartitionToWide<U>;
using VW = hn::Vec<Wide>;

/// Philox blocks, one per 64-bit lane, of which only the lower half counts: a product of two 32-bit
/// words fills the lane, and the next product reads lower halves only.
struct WideBlocks {
  VW word[4];
};

HWY_INLINE VW multiply(VW a, std::uint32_t factor) {
  const U u;
  return hn::MulEven(hn::BitCast(u, a), hn::Set(u, factor));
}

HWY_INLINE void philox_round(WideBlocks& b, VW key0, VW key1) {
  const VW product0 = multiply(b.word[0], philox_m0);
  const VW product1 = multiply(b.word[2], philox_m1);
  b.word[0] = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(b.word[1], key0));
  b.word[2] = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(b.word[3], key1));
  b.word[1] = product1;
  b.word[3] = product0;
}

/// Philox blocks, one per 32-bit lane.
struct Blocks {
  VU word[4];
};

HWY_INLINE Blocks interleave(const WideBlocks& even, const WideBlocks& odd) {
  const U u;
  Blocks b;
  for (int i = 0; i < 4; ++i)
    b.word[i] =
        hn::OddEven(hn::BitCast(u, hn::ShiftLeft<32>(odd.word[i])), hn::BitCast(u, even.word[i]));
  return b;
}

/// Computes the blocks of `index` and of `next`, whose counters differ in word 0 only. Each round
/// waits for the one before it, so four independent blocks are interleaved to keep the processor
/// busy.
HWY_INLINE void philox_blocks(VU index, VU next, const DrawKey& key, Blocks& first,
                              Blocks& second) {
  const Wide wide;
  const PhiloxBlock counter = noise_counter(key, 0);
  const auto begin = [&](VW indices) HWY_ATTR {
    return WideBlocks{{indices, hn::Set(wide, counter.word[1]), hn::Set(wide, counter.word[2]),
                       hn::Set(wide, counter.word[3])}};
  };
  WideBlocks even0 = begin(hn::BitCast(wide, index));
  WideBlocks odd0 = begin(hn::ShiftRight<32>(hn::BitCast(wide, index)));
  WideBlocks even1 = begin(hn::BitCast(wide, next));
  WideBlocks odd1 = begin(hn::ShiftRight<32>(hn::BitCast(wide, next)));
  auto key0 = std::uint32_t(key.seed);
  auto key1 = std::uint32_t(key.seed >> 32);
  for (int round = 0; round < philox_rounds; ++round) {
    const VW round_key0 = hn::Set(wide, key0);
    const VW round_key1 = hn::Set(wide, key1);
    philox_round(even0, round_key0, round_key1);
    philox_round(odd0, round_key0, round_key1);
    philox_round(even1, round_key0, round_key1);
    philox_round(odd1, round_key0, round_key1);
    key0 += philox_w0;
    key1 += philox_w1;
  }
  first = interleave(even0, odd0);
  second = interleave(even1, odd1);
}

/// Returns at most word * 2^-32: the value is lowered by what rounding may have added.
HWY_INLINE VF lower_bound(VU word) {
  const VU halved = hn::ShiftRight<1>(word); // fits the signed type that converts
  return hn::Mul(hn::ConvertTo(F(), hn::BitCast(hn::RebindToSigned<F>(), halved)),
                 hn::Set(F(), 0x1p-31f * (1 - 0x1p-20f)));
}

/// Enters tokens first .. first + 4 lanes, whose noise is `b`. A token's score is at least word *
/// 2^-32 / p, because -log(1 - v) >= v. So only the few tokens whose bound is below the leader's
/// score are scored in full.
HWY_INLINE void enter_blocks(std::size_t first, const Blocks& b, Leader& leader) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const float* p = &leader.p[first];
  HWY_ALIGN float bound[4 * hn::MaxLanes(f)];
  hn::StoreInterleaved4(lower_bound(b.word[0]), lower_bound(b.word[1]), lower_bound(b.word[2]),
                        lower_bound(b.word[3]), f, bound);
  for (std::size_t j = 0; j < 4; ++j) {
    const VF limit = hn::Mul(hn::Set(f, float(leader.score)), hn::LoadU(f, p + j * lanes));
    if (hn::AllFalse(f, hn::Lt(hn::Load(f, bound + j * lanes), limit)))
      continue;
    for (std::size_t k = j * lanes; k < (j + 1) * lanes; ++k)
      if (double(bound[k]) < leader.score * double(p[k]))
        leader.enter(first + k);
  }
}

/// Enters tokens first .. first + 8 lanes; if all have p = 0, no noise is computed.
HWY_INLINE void enter_vectors(std::size_t first, Leader& leader) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  VF most = hn::Zero(f);
  for (std::size_t j = 0; j < 8; ++j)
    most = hn::Max(most, hn::LoadU(f, &leader.p[first + j * lanes]));
  if (hn::AllFalse(f, hn::Gt(most, hn::Zero(f))))
    return;
  Blocks a, b;
  philox_blocks(hn::Iota(U(), std::uint32_t(first / 4)),
                hn::Iota(U(), std::uint32_t(first / 4 + lanes)), leader.key, a, b);
  enter_blocks(first, a, leader);
  enter_blocks(first + 4 * lanes, b, leader);
}
#endif

std::int32_t Race(std::span<const float> p, const DrawKey& key) {
  Leader leader{p, key};
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const std::size_t step = 8 * hn::Lanes(F());
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

std::int32_t draw_gumbel_max(std::span<const float> p, const DrawKey& key) {
  return HWY_DYNAMIC_DISPATCH(Race)(p, key);
}

} // namespace paceline::sampling::row
#endif
