// Building blocks of the portable kernels: blocks of 16 floats, whatever the width of registers, so
// that every machine with fused multiply-add sums in the same order. The file is compiled once for
// each instruction set (hence the guard, which is Highway's way).
#if defined(PACELINE_GPU_CPU_HIGHWAY_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_GPU_CPU_HIGHWAY_INL_HPP
#undef PACELINE_GPU_CPU_HIGHWAY_INL_HPP
#else
#define PACELINE_GPU_CPU_HIGHWAY_INL_HPP
#endif

#include "gpu/cpu/encode_blocks.hpp"
#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/kernels.hpp"

#include <algorithm>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include <type_traits>

#undef INLINED
#define INLINED HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {

/// Implement Kernels::linear and Kernels::attend; staged: f32, [rows, padded inputs].
void linear(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
            Scratch& scratch);
/// Implements linear for up to mx_rows_max rows, all of them moderate, and moderate tiles of a
/// microscaling weight, which is decoded in registers.
inline constexpr int mx_rows_max = 8;
void linear_mx(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
               Scratch& scratch);
/// Returns whether all numbers of a staged row are 0 or of a size from 2^-60 up to 2^16. inputs:
/// padded.
bool moderate(const float* row, int inputs);
/// Implements linear for a weight of scaled codes. staged: all rows, then, if there are least
/// values, the sums of each row's parts.
void linear_codes(Tensor out, const float* staged, const PackedWeight& w, TileRun run, bool add,
                  Scratch& scratch);
/// Computes the sums of a row's parts, of `part` inputs each. sums: [parts_of_row]
void sum_parts(const float* row, int part, int parts_of_row, float* sums);
/// Implements linear_int8, with the same bits if the processor fuses multiplications with
/// additions.
void linear_int8_rows(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add);
DecodeBlocks decode_blocks; // See highway.hpp.
EncodeBlocks encode_blocks; // See encode_blocks.hpp.
void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
            const AttentionOptions& options, const KvHead& kv, Scratch& scratch);
WeighBlock weigh_block; // See highway.hpp.

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int lanes = int(hn::MaxLanes(D()));
constexpr int parts = 16 / lanes;

/// Calls f(0), f(1) ... f(N - 1) with constants, so that arrays indexed by them stay in registers.
/// Lambdas for it are marked INLINED.
template <int N, int I = 0, class F>
HWY_INLINE void repeat(const F& f) {
  if constexpr (I < N) {
    f(std::integral_constant<int, I>());
    repeat<N, I + 1>(f);
  }
}

/// Calls f(a constant with this value), where value is from 1 to most.
template <int most, class F>
HWY_INLINE void with_constant(int value, const F& f) {
  if constexpr (most > 1) {
    if (value < most)
      return with_constant<most - 1>(value, f);
  }
  f(std::integral_constant<int, most>());
}

constexpr int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

/// A block of 16 floats.
struct V16 {
  V part[parts];
};

template <class F>
HWY_INLINE V16 each(const F& f) {
  V16 result;
  repeat<parts>([&](auto i) INLINED { result.part[i] = f(i); });
  return result;
}
HWY_INLINE V16 splat(float x) {
  return each([&](int) INLINED { return hn::Set(D(), x); });
}
HWY_INLINE V16 load(const float* from) {
  return each([&](int i) INLINED { return hn::LoadU(D(), from + i * lanes); });
}
HWY_INLINE void store(const V16& x, float* to) {
  for (int i = 0; i < parts; ++i)
    hn::StoreU(x.part[i], D(), to + i * lanes);
}
HWY_INLINE V16 load_n(const float* from, int count) {
  if (HWY_LIKELY(count >= 16))
    return load(from);
  float padded[16] = {};
  std::copy_n(from, count, padded);
  return load(padded);
}
HWY_INLINE void store_n(const V16& x, float* to, int count) {
  if (HWY_LIKELY(count >= 16))
    return store(x, to);
  float padded[16];
  store(x, padded);
  std::copy_n(padded, count, to);
}
HWY_INLINE V16 add(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Add(a.part[i], b.part[i]); });
}
HWY_INLINE V16 mul(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Mul(a.part[i], b.part[i]); });
}
/// Returns a * b + c.
HWY_INLINE V16 mul_add(const V16& a, const V16& b, const V16& c) {
  return each([&](int i) INLINED { return hn::MulAdd(a.part[i], b.part[i], c.part[i]); });
}
HWY_INLINE V16 max(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Max(a.part[i], b.part[i]); });
}
HWY_INLINE V16 exp(const V16& x) {
  return each([&](int i) INLINED { return hn::Exp(D(), x.part[i]); });
}
/// Rounds to bf16, to nearest even, and converts back; NaN stays NaN.
HWY_INLINE V16 round_bf16(const V16& x) {
  return each([&](int i) INLINED {
    const hn::RebindToUnsigned<D> u;
    const auto bits = hn::BitCast(u, x.part[i]);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1u));
    const auto rounded =
        hn::And(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7FFFu))), hn::Set(u, 0xFFFF0000u));
    return hn::IfThenElse(hn::Eq(x.part[i], x.part[i]), hn::BitCast(D(), rounded), x.part[i]);
  });
}
/// Returns cap * tanh(x / cap).
HWY_INLINE V16 soft_capped(const V16& x, float cap) {
  return each([&](int i) INLINED {
    const V c = hn::Set(D(), cap);
    return hn::Mul(c, hn::Tanh(D(), hn::Div(x.part[i], c)));
  });
}
template <class Tag, class Vec, class Op>
HWY_INLINE auto fold_to_four(Tag, const Vec& x, const Op& op) {
  if constexpr (hn::MaxLanes(Tag()) == 4) {
    return x;
  } else {
    const hn::Half<Tag> half;
    return fold_to_four(half, op(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), op);
  }
}
template <class Op>
HWY_INLINE float fold_vector(V x, const Op& op) {
  const auto four = fold_to_four(D(), x, op);
  const auto two = op(four, hn::Shuffle1032(four));
  return hn::GetLane(op(two, hn::Shuffle2301(two)));
}

/// Folds 16 lanes in halves, whatever the register's width: (i, i + 8), (i, i + 4), ...
template <class Op>
HWY_INLINE float fold(V16 x, const Op& op) {
  for (int width = parts / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      x.part[i] = op(x.part[i], x.part[i + width]);
  return fold_vector(x.part[0], op);
}
HWY_INLINE float sum(const V16& x) {
  return fold(x, [](const auto& a, const auto& b) INLINED { return hn::Add(a, b); });
}
HWY_INLINE float highest(const V16& x) {
  return fold(x, [](const auto& a, const auto& b) INLINED { return hn::Max(a, b); });
}

/// The readers below read two rows of 16 elements that belong to neighbouring inputs, keys or
/// dimensions. stride: elements between the rows, if they are apart.
struct ReadBf16 { // Interleaved: a 32-bit lane holds one element of each row.
  static constexpr std::size_t bytes = 2;
  static constexpr std::size_t lane_bytes = 4; ///< From a row's element to its next.
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return each([&](int i) INLINED { return hn::BitCast(D(), hn::ShiftLeft<16>(raw(from, i))); });
  }
  HWY_INLINE static V16 odd(const std::byte* from, int) {
    return each([&](int i) INLINED {
      const auto mask = hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000u);
      return hn::BitCast(D(), hn::And(raw(from, i), mask));
    });
  }
  HWY_INLINE static hn::Vec<hn::RebindToUnsigned<D>> raw(const std::byte* from, int i) {
    return hn::LoadU(hn::RebindToUnsigned<D>(),
                     reinterpret_cast<const std::uint32_t*>(from) + i * lanes);
  }
};
struct ReadF32 {
  static constexpr std::size_t bytes = 4;
  static constexpr std::size_t lane_bytes = 4;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return load(reinterpret_cast<const float*>(from));
  }
  HWY_INLINE static V16 odd(const std::byte* from, int stride) {
    return load(reinterpret_cast<const float*>(from) + stride);
  }
};
struct ReadF16 {
  static constexpr std::size_t bytes = 2;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return each([&](int i) INLINED {
      const hn::Rebind<hwy::float16_t, D> half;
      const auto* at = reinterpret_cast<const hwy::float16_t*>(from) + i * lanes;
      return hn::PromoteTo(D(), hn::LoadU(half, at));
    });
  }
  HWY_INLINE static V16 odd(const std::byte* from, int stride) {
    return even(from + 2 * stride, stride);
  }
};

#endif // HWY_SCALAR

} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
