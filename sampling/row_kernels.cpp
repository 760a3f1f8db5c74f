// SVE is off because its vectors have no size that a struct could hold; such machines have NEON.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/row_kernels.cpp"
#include "hwy/foreach_target.h" // compiles this file once per instruction set

#include "hwy/highway.h"

#include "sampling/row_kernels.hpp"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace paceline::sampling::row::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using U = hn::RebindToUnsigned<F>;
using VF = hn::Vec<F>;

/// Loads a row's last, partial vector, filled up with `fill`.
HWY_INLINE VF load_tail(const float* x, std::size_t count, float fill) {
  const F f;
  HWY_ALIGN float tail[hn::MaxLanes(f)];
  std::fill_n(tail, hn::Lanes(f), fill);
  std::copy_n(x, count, tail);
  return hn::Load(f, tail);
}

HWY_INLINE void store_tail(VF v, float* x, std::size_t count) {
  const F f;
  HWY_ALIGN float tail[hn::MaxLanes(f)];
  hn::Store(v, f, tail);
  std::copy_n(tail, count, x);
}

/// A sum of floats, added up in double.
#if HWY_TARGET == HWY_SCALAR
struct Total {
  double sum = 0;
  void add(VF v) { sum += double(hn::GetLane(v)); }
  double value() const { return sum; }
};
#else
struct Total {
  using Half = hn::Half<F>;
  using D = hn::Rebind<double, Half>;
  hn::Vec<D> low;
  hn::Vec<D> high;

  HWY_INLINE Total() : low(hn::Zero(D())), high(hn::Zero(D())) {}
  HWY_INLINE void add(VF v) {
    low = hn::Add(low, hn::PromoteTo(D(), hn::LowerHalf(Half(), v)));
    high = hn::Add(high, hn::PromoteTo(D(), hn::UpperHalf(Half(), v)));
  }
  HWY_INLINE double value() const { return hn::GetLane(hn::SumOfLanes(D(), hn::Add(low, high))); }
};
#endif

Extent Scan(std::span<const float> x) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  VF highest0 = hn::Set(f, -infinity);
  VF highest1 = highest0;
  auto nan = hn::IsNaN(highest0);
  std::size_t i = 0;
  for (; i + 2 * lanes <= x.size(); i += 2 * lanes) {
    const VF a = hn::LoadU(f, &x[i]);
    const VF b = hn::LoadU(f, &x[i + lanes]);
    nan = hn::Or(nan, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
    highest0 = hn::Max(highest0, a);
    highest1 = hn::Max(highest1, b);
  }
  for (; i < x.size(); i += lanes) {
    const VF a = load_tail(&x[i], std::min(lanes, x.size() - i), -infinity);
    nan = hn::Or(nan, hn::IsNaN(a));
    highest0 = hn::Max(highest0, a);
  }
  const float highest = hn::GetLane(hn::MaxOfLanes(f, hn::Max(highest0, highest1)));
  return {highest, !hn::AllFalse(f, nan)};
}

std::size_t Find(std::span<const float> x, float value) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const VF wanted = hn::Set(f, value);
  std::size_t i = 0;
  while (i + lanes <= x.size() && hn::AllFalse(f, hn::Eq(hn::LoadU(f, &x[i]), wanted)))
    i += lanes;
  while (i < x.size() && x[i] != value)
    ++i;
  return i;
}

/// Computes exp(x) for x <= 0 within two units in the last place, and 0 for subnormal results. The
/// chains are shorter than in Highway's Exp, which also handles positive arguments; this function
/// is most of a row's cost.
HWY_INLINE VF exp_of_negative(VF x) {
  const F f;
  const auto c = [f](float value) HWY_ATTR { return hn::Set(f, value); };
  // Rounds x / ln 2 to a whole number, which then stands in the lowest bits of `shifted`.
  const VF shift = c(0x1.8p23f);
  const VF shifted = hn::MulAdd(x, c(1.44269504f), shift);
  const VF whole = hn::Sub(shifted, shift);
  // Subtracts ln 2 in two parts, the first with so few bits that its product is exact.
  VF r = hn::NegMulAdd(whole, c(0.693359375f), x);
  r = hn::NegMulAdd(whole, c(-2.12194440e-4f), r);
  // Taylor series in pairs of terms; |r| <= ln 2 / 2, and r^8 / 8! is at most 5e-9.
  const VF r2 = hn::Mul(r, r);
  const VF low = hn::MulAdd(r2, hn::MulAdd(r, c(1.0f / 6), c(0.5f)), hn::Add(r, c(1)));
  const VF high = hn::MulAdd(r2, hn::MulAdd(r, c(1.0f / 5040), c(1.0f / 720)),
                             hn::MulAdd(r, c(1.0f / 120), c(1.0f / 24)));
  const VF sum = hn::MulAdd(hn::Mul(r2, r2), high, low);
  const U u; // The whole number is shifted into the exponent bits.
  const VF power =
      hn::BitCast(f, hn::Add(hn::ShiftLeft<23>(hn::BitCast(u, shifted)), hn::Set(u, 0x3F800000u)));
  return hn::IfThenElseZero(hn::Ge(x, c(-87)), hn::Mul(sum, power));
}

/// The exponential of x, or 0 if that is below a floor.
struct Weight {
  VF highest;
  VF rate;
  VF floor;
  explicit Weight(Exponential e, float least = 0)
      : highest(hn::Set(F(), e.highest)), rate(hn::Set(F(), e.rate)), floor(hn::Set(F(), least)) {}
  HWY_INLINE VF operator()(VF x) const {
    const VF w = exp_of_negative(hn::Mul(hn::Sub(x, highest), rate));
    return hn::IfThenElseZero(hn::Ge(w, floor), w);
  }
};

struct Mass : Weight {
  explicit Mass(Exponential e) : Weight(e) {}
  HWY_INLINE VF operator()(VF x) const {
    return hn::Floor(hn::Mul(Weight::operator()(x), hn::Set(F(), float(1 / mass_unit))));
  }
};

template <class Function>
HWY_INLINE double map_and_sum(std::span<const float> x, Function function, float* out) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  Total total;
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes) {
    const VF y = function(hn::LoadU(f, &x[i]));
    total.add(y);
    if (out)
      hn::StoreU(y, f, out + i);
  }
  if (i < x.size()) {
    const VF y = function(load_tail(&x[i], x.size() - i, -infinity));
    total.add(y);
    if (out)
      store_tail(y, out + i, x.size() - i);
  }
  return total.value();
}

double Exponentials(std::span<const float> x, Exponential e, float floor, float* out) {
  return map_and_sum(x, Weight(e, floor), out);
}

double Masses(std::span<const float> x, Exponential e, float* out) {
  return map_and_sum(x, Mass(e), out);
}

void Scale(std::span<float> x, float factor) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(f, &x[i]), hn::Set(f, factor)), f, &x[i]);
  for (; i < x.size(); ++i)
    x[i] *= factor;
}

std::size_t GroupMaxima(std::span<const float> x, std::size_t group_length, float* maxima) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  std::size_t count = 0;
  for (std::size_t i = 0; i + group_length * lanes <= x.size(); i += group_length * lanes) {
    VF highest = hn::LoadU(f, &x[i]);
    for (std::size_t j = 1; j < group_length; ++j)
      highest = hn::Max(highest, hn::LoadU(f, &x[i + j * lanes]));
    hn::StoreU(highest, f, maxima + count);
    count += lanes;
  }
  return count;
}

std::size_t Collect(std::span<const float> x, float cut, float* values, std::uint32_t* indices) {
  const F f;
  const U u;
  const std::size_t lanes = hn::Lanes(f);
  const VF least = hn::Set(f, cut);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes) {
    const VF v = hn::LoadU(f, &x[i]);
    const auto mask = hn::Ge(v, least);
    if (hn::AllFalse(f, mask))
      continue;
    hn::CompressStore(hn::Iota(u, std::uint32_t(i)), hn::RebindMask(u, mask), u, indices + count);
    count += hn::CompressStore(v, mask, f, values + count);
  }
  for (; i < x.size(); ++i) {
    if (x[i] >= cut) {
      indices[count] = std::uint32_t(i);
      values[count++] = x[i];
    }
  }
  return count;
}

std::size_t KeepFrom(float* values, std::uint32_t* ids, std::size_t count, float cut) {
  const F f;
  const U u;
  const std::size_t lanes = hn::Lanes(f);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; i += lanes) {
    const VF v = hn::LoadU(f, values + i);
    const auto mask = hn::And(hn::Ge(v, hn::Set(f, cut)), hn::FirstN(f, count - i));
    // Writing in place is safe, since at most as much is written as was read.
    hn::CompressStore(hn::LoadU(u, ids + i), hn::RebindMask(u, mask), u, ids + kept);
    kept += hn::CompressStore(v, mask, f, values + kept);
  }
  return kept;
}

Split SplitAt(float* values, float* masses, std::size_t count, float pivot, float* above_values,
              float* above_masses) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const VF middle = hn::Set(f, pivot);
  Total above_mass;
  Total equal_mass;
  Split s;
  for (std::size_t i = 0; i < count; i += lanes) {
    const auto valid = hn::FirstN(f, count - i);
    const VF v = hn::LoadU(f, values + i);
    const VF m = hn::LoadU(f, masses + i);
    const auto above = hn::And(hn::Gt(v, middle), valid);
    const auto equal = hn::And(hn::Eq(v, middle), valid);
    const auto below = hn::And(hn::Lt(v, middle), valid);
    above_mass.add(hn::IfThenElseZero(above, m));
    equal_mass.add(hn::IfThenElseZero(equal, m));
    s.equal += hn::CountTrue(f, equal);
    hn::CompressStore(m, above, f, above_masses + s.above);
    s.above += hn::CompressStore(v, above, f, above_values + s.above);
    hn::CompressStore(m, below, f, masses + s.below);
    s.below += hn::CompressStore(v, below, f, values + s.below);
  }
  s.above_mass = above_mass.value();
  s.equal_mass = equal_mass.value();
  return s;
}

double Sum(std::span<const float> x) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  Total total;
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes)
    total.add(hn::LoadU(f, &x[i]));
  if (i < x.size())
    total.add(load_tail(&x[i], x.size() - i, 0));
  return total.value();
}

double ResidualSum(std::span<const float> p, std::span<const float> q) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  Total total;
  const auto add = [&](VF a, VF b)
                       HWY_ATTR { total.add(hn::IfThenElseZero(hn::Gt(a, b), hn::Sub(a, b))); };
  std::size_t i = 0;
  for (; i + lanes <= p.size(); i += lanes)
    add(hn::LoadU(f, &p[i]), hn::LoadU(f, &q[i]));
  if (i < p.size())
    add(load_tail(&p[i], p.size() - i, 0), load_tail(&q[i], p.size() - i, 0));
  return total.value();
}

} // namespace paceline::sampling::row::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::sampling::row {

HWY_EXPORT(Scan);
HWY_EXPORT(Find);
HWY_EXPORT(Exponentials);
HWY_EXPORT(Masses);
HWY_EXPORT(Scale);
HWY_EXPORT(GroupMaxima);
HWY_EXPORT(Collect);
HWY_EXPORT(KeepFrom);
HWY_EXPORT(SplitAt);
HWY_EXPORT(Sum);
HWY_EXPORT(ResidualSum);

Extent extent(std::span<const float> x) {
  return HWY_DYNAMIC_DISPATCH(Scan)(x);
}

std::size_t find(std::span<const float> x, float value) {
  return HWY_DYNAMIC_DISPATCH(Find)(x, value);
}

double exponentials(std::span<const float> x, Exponential e, float floor, float* out) {
  return HWY_DYNAMIC_DISPATCH(Exponentials)(x, e, floor, out);
}

double masses(std::span<const float> x, Exponential e, float* out) {
  return HWY_DYNAMIC_DISPATCH(Masses)(x, e, out);
}

void scale(std::span<float> x, float factor) {
  HWY_DYNAMIC_DISPATCH(Scale)(x, factor);
}

std::size_t group_maxima(std::span<const float> x, std::size_t group_length, float* maxima) {
  return HWY_DYNAMIC_DISPATCH(GroupMaxima)(x, group_length, maxima);
}

std::size_t collect(std::span<const float> x, float cut, float* values, std::uint32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(Collect)(x, cut, values, indices);
}

std::size_t keep_from(float* values, std::uint32_t* ids, std::size_t count, float cut) {
  return HWY_DYNAMIC_DISPATCH(KeepFrom)(values, ids, count, cut);
}

Split split(float* values, float* masses, std::size_t count, float pivot, float* above_values,
            float* above_masses) {
  return HWY_DYNAMIC_DISPATCH(SplitAt)(values, masses, count, pivot, above_values, above_masses);
}

double sum(std::span<const float> x) {
  return HWY_DYNAMIC_DISPATCH(Sum)(x);
}

double residual_sum(std::span<const float> p, std::span<const float> q) {
  return HWY_DYNAMIC_DISPATCH(ResidualSum)(p, q);
}

} // namespace paceline::sampling::row
#endif
