// Readers of microscaling weights in kernels. They decode in registers, into the bf16 operands that
// a weight of bf16 with the same numbers would have.
//
// A floating-point element, shifted into the place of a bf16 with the same mantissa and a shorter
// exponent, is a valid bf16, also if subnormal, except that the exponents' biases differ. Two
// products by powers of two, which are exact, correct this and apply the block's scale. (One
// product would do for most scales, but not for large ones, for which bf16 has no power of two.)
#pragma once

#include "gpu/cuda/span.cuh"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

/// Returns two codes as bf16, in units of 1 / code_unit. top: each half has a code in its highest
/// bits, and any bits below.
template <WeightFormat format>
__device__ __forceinline__ std::uint32_t code_as_bf16(std::uint32_t top) {
  constexpr MxElement element = element_of(format);
  if constexpr (element.integer()) { // (128 + lower bits) - 128, or - 256 if negative.
    constexpr std::uint32_t bits_of_128 = both(0x4300);
    constexpr std::uint32_t minus_one = both(0xBF80);
    const std::uint32_t code = top >> 8;
    return ptx::multiply_add_pairs(bits_of_128 | (code & both(0x80)), minus_one,
                                   bits_of_128 | (code & both(0x7F)));
  } else {
    constexpr int shift = 8 - element.exponent_bits;
    constexpr std::uint32_t magnitude =
        both(std::uint32_t(element.sign_bit() - 1) << (7 - element.mantissa_bits));
    return (top & both(0x8000)) | (top >> shift & magnitude);
  }
}
template <WeightFormat format>
constexpr std::uint32_t code_unit() {
  constexpr MxElement element = element_of(format);
  return both(std::uint32_t(element.integer() ? 127 - element.mantissa_bits : 254 - element.bias)
              << 7);
}

/// A lane's weights of a span, in its registers.
template <WeightFormat format>
class MxWeights {
public:
  static constexpr int bits = element_of(format).bits();
  static constexpr int steps = span_steps;
  static constexpr std::size_t bytes = span_bytes(format); ///< Bytes of a span.

  /// A span that a warp has fetched into shared memory.
  struct Span {
    alignas(16) std::uint32_t codes[code_words(bits)];
    std::uint32_t scales[warp_lanes]; ///< Each lane's own, so that none waits for another.
  };

  static __device__ void fetch(Span& to, const std::byte* span, int lane) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(span);
    LaneCodes<bits>::fetch(to.codes, from, lane);
    ptx::copy_async<4>(to.scales + lane, from + scale_word(bits, lane / 4));
  }

  __device__ void load(const Span& span, int lane) { load(span.codes, span.scales[lane], lane); }
  /// Loads from the packed weight.
  __device__ void load(const std::byte* span, int lane) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(span);
    load(from, from[scale_word(bits, lane / 4)], lane);
  }

  /// Returns operand A of the span's step. Scales are 0 for 2^-127, and infinite for the NaN scale,
  /// whose codes are all zero, so that their products are NaN.
  __device__ uint4 operand(int step) const {
    const int block = step / run_steps;
    const int first = step % run_steps * 4;
    const std::uint32_t* run = codes_.run(block);
    const std::uint32_t upper = scale(scale_byte(0, block));
    const std::uint32_t lower = scale(scale_byte(8, block));
    return {weights(run, first, upper), weights(run, first + 1, lower),
            weights(run, first + 2, upper), weights(run, first + 3, lower)};
  }

private:
  __device__ void load(const std::uint32_t* codes, std::uint32_t scales, int lane) {
    codes_.load(codes, lane);
    scales_ = scales;
  }

  /// Returns a byte of the scales as two bf16.
  __device__ std::uint32_t scale(int byte) const {
    return (scales_ >> (8 * byte) & 0xFF) * both(1 << 7);
  }

  /// Returns a run's code with its highest bits on top of each half.
  static __device__ std::uint32_t top(const std::uint32_t* run, int pair) {
    if (bits == 6 && pair == 6)
      return (run[0] << 12 & both(0xF000)) | (run[1] << 8 & both(0x0C00));
    if (bits == 6 && pair == 7)
      return (run[1] << 14 & both(0xC000)) | (run[2] << 10 & both(0x3C00));
    constexpr int each = 16 / bits;
    return run[pair / each] << (pair % each * bits);
  }

  static __device__ std::uint32_t weights(const std::uint32_t* run, int pair, std::uint32_t scale) {
    constexpr std::uint32_t minus_zero = both(0x8000);
    const std::uint32_t element = ptx::multiply_add_pairs(code_as_bf16<format>(top(run, pair)),
                                                          code_unit<format>(), minus_zero);
    return ptx::multiply_add_pairs(element, scale, minus_zero);
  }

  LaneCodes<bits> codes_;
  std::uint32_t scales_;
};

/// Calls f(MxWeights<format>()) with this format.
template <class F>
auto with_mx_weights(WeightFormat format, const F& f) {
  switch (format) {
  case WeightFormat::mxfp8: return f(MxWeights<WeightFormat::mxfp8>());
  case WeightFormat::mxfp8_e5m2: return f(MxWeights<WeightFormat::mxfp8_e5m2>());
  case WeightFormat::mxfp6: return f(MxWeights<WeightFormat::mxfp6>());
  case WeightFormat::mxfp6_e3m2: return f(MxWeights<WeightFormat::mxfp6_e3m2>());
  case WeightFormat::mxfp4: return f(MxWeights<WeightFormat::mxfp4>());
  default: return f(MxWeights<WeightFormat::mxint8>());
  }
}

} // namespace paceline::gpu::cuda::kernels
