// Readers of scaled codes (gguf_blocks.hpp) in kernels. They decode codes into whole numbers, which
// bf16 has exactly, as operands of the matrix instruction. A part's products are summed from zero
// and then multiplied by its scale in f32, so that no weight is rounded. Its least value is
// multiplied by the sum of the part's inputs, which is the product with an operand of ones.
//
// A code from 0 to 127 in the lowest bits of the bf16 128 is 128 more than the code.
#pragma once

#include "gpu/cuda/span.cuh"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

/// What a lane's outputs g and g + 8 have for a part.
struct PartFactors {
  float scale[2];
  float least[2];
};

/// A lane's weights of a span, in its registers.
template <WeightFormat format>
class ScaledWeights {
  static constexpr ScaledCodes how = scaled_codes(format);
  static constexpr int record_words = ScaledRecord::of(how).words();
  static constexpr int parts_of_block = span_inputs / how.part / ScaledRecord::of(how).blocks;

public:
  static constexpr int bits = how.bits;
  static constexpr int steps = span_steps;
  static constexpr std::size_t bytes = span_bytes(format);  ///< Bytes of a span.
  static constexpr int part_steps = how.part / step_inputs; ///< Steps that have the same factors.
  static constexpr bool has_least = how.least;

  /// A span that a warp has fetched into shared memory.
  struct Span {
    alignas(16) std::uint32_t codes[code_words(bits)];
    alignas(16) std::uint32_t records[warp_lanes * record_words]; ///< Each lane's own.
  };

  static __device__ void fetch(Span& to, const std::byte* span, int lane) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(span);
    LaneCodes<bits>::fetch(to.codes, from, lane);
    copy_words<record_words>(to.records + lane * record_words,
                             from + record_word(bits, record_words, lane / 4));
  }

  __device__ void load(const Span& span, int lane) {
    load(span.codes, span.records + lane * record_words, lane);
  }
  /// Loads from the packed weight.
  __device__ void load(const std::byte* span, int lane) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(span);
    load(from, from + record_word(bits, record_words, lane / 4), lane);
  }

  /// Returns operand A of the span's step, of codes' numbers.
  __device__ uint4 operand(int step) const {
    const int run = step / run_steps;
    const int first = step % run_steps * 4;
    return {numbers(run, first), numbers(run, first + 1), numbers(run, first + 2),
            numbers(run, first + 3)};
  }

  __device__ PartFactors factors(int part) const {
    PartFactors out{};
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      out.scale[upper] = number(0, part, upper);
      if constexpr (has_least)
        out.least[upper] = number(1, part, upper);
    }
    return out;
  }

private:
  __device__ void load(const std::uint32_t* codes, const std::uint32_t* records, int lane) {
    codes_.load(codes, lane);
#pragma unroll
    for (int i = 0; i < record_words; ++i)
      records_[i] = records[i];
  }

  /// Returns a number of the record: 0: scale, 1: least value.
  __device__ float number(int which, int part, int upper) const {
    constexpr ScaledRecord record = ScaledRecord::of(how);
    const int half = record.half(which, part / parts_of_block, upper);
    const float whole = ptx::half_to_float(records_[half / 2] >> (half % 2 * 16));
    if constexpr (record.parts == 0)
      return whole;
    const int byte = record.byte(which, part, upper);
    constexpr std::uint32_t bits_of_2_23 = 0x4B000000;
    const std::uint32_t above =
        ptx::select_bytes(records_[byte / 4], bits_of_2_23, 0x7440u | std::uint32_t(byte % 4));
    return whole * (std::bit_cast<float>(above) - (0x1p23f + 128));
  }

  /// Returns the numbers of a pair as bf16.
  __device__ std::uint32_t numbers(int run, int pair) const {
    constexpr std::uint32_t one = both(0x3F80);
    constexpr std::uint32_t minus_one = both(0xBF80);
    if constexpr (bits == 8 || is_table) { // (128 + lower bits) - 128, or - 256 if negative.
      const std::uint32_t code = is_table ? looked_up(run, pair) : eight_bits(run, pair);
      return ptx::multiply_add_pairs(over_128<0x80>(code), minus_one, over_128<0x7F>(code));
    } else { // bf16 has all whole numbers up to 256.
      constexpr std::uint32_t minus_zero_code = both(0xC300u + std::uint32_t(-how.numbers[0]));
      return ptx::multiply_add_pairs(code_over_128(run, pair), one, minus_zero_code);
    }
  }

  /// Returns, in each half, the bits that the mask has over those of the bf16 128.
  template <std::uint32_t mask>
  static __device__ std::uint32_t over_128(std::uint32_t code) {
    return ptx::bits_over<both(mask), both(0x4300)>(code);
  }

  /// Returns the codes of a pair over those bits.
  __device__ std::uint32_t code_over_128(int run, int pair) const {
    const std::uint32_t* const words = codes_.run(run);
    if constexpr (bits == 6) {
      if (pair == 6)
        return over_128<0x3C>(words[0] << 2) | (words[1] >> 2 & both(0x03));
      if (pair == 7)
        return over_128<0x30>(words[1] << 4) | (words[2] & both(0x0F));
      return over_128<0x3F>(words[pair / 2] >> (pair % 2 == 0 ? 10 : 4));
    }
    const std::uint32_t low = over_128<0x0F>(words[pair / 4] >> (12 - pair % 4 * 4));
    if constexpr (bits == 4)
      return low;
    const int place = run * 8 + pair;
    const std::uint32_t high = codes_.words[bits - 1]; // In a run's own words there are four bits.
    return low | ((place < 4 ? high << (4 - place) : high >> (place - 4)) & both(0x10));
  }
  /// Returns codes of 8 bits, with any bits above.
  __device__ std::uint32_t eight_bits(int run, int pair) const {
    return codes_.run(run)[pair / 2] >> (8 - pair % 2 * 8);
  }

  static constexpr bool is_table = how.numbers[1] - how.numbers[0] != 1 && bits == 4;
  /// Returns four entries of the table, from `first` on, as bytes.
  static constexpr std::uint32_t table(std::size_t first) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i)
      word |= std::uint32_t(std::uint8_t(how.numbers[first + i])) << (8 * i);
    return word;
  }
  /// Returns what the table has for a pair's codes, in the lowest bytes of the halves.
  __device__ std::uint32_t looked_up(int run, int pair) const {
    const std::uint32_t word = codes_.run(run)[pair / 4];
    const std::uint32_t place = std::uint32_t(3 - pair % 4);
    return ptx::select_bytes(four_looked_up(word & 0xFFFF), four_looked_up(word >> 16),
                             place | place << 4 | (4 + place) << 8 | (4 + place) << 12);
  }
  /// Does it for four codes, from the lowest bits on; a code's highest bit says which half of the
  /// table it is in.
  static __device__ std::uint32_t four_looked_up(std::uint32_t codes) {
    constexpr std::uint32_t entries[] = {table(0), table(4), table(8), table(12)};
    const std::uint32_t within = codes & 0x7777;
    return ptx::select_bytes(ptx::select_bytes(entries[0], entries[1], within),
                             ptx::select_bytes(entries[2], entries[3], within),
                             0x3210 | (codes & 0x8888) >> 1);
  }

  LaneCodes<bits> codes_;
  std::uint32_t records_[record_words];
};

/// Calls f(ScaledWeights<format>()) with this format.
template <class F>
auto with_scaled_weights(WeightFormat format, const F& f) {
  switch (format) {
  case WeightFormat::q4_0: return f(ScaledWeights<WeightFormat::q4_0>());
  case WeightFormat::q4_1: return f(ScaledWeights<WeightFormat::q4_1>());
  case WeightFormat::q5_0: return f(ScaledWeights<WeightFormat::q5_0>());
  case WeightFormat::q5_1: return f(ScaledWeights<WeightFormat::q5_1>());
  case WeightFormat::q8_0: return f(ScaledWeights<WeightFormat::q8_0>());
  case WeightFormat::q2_k: return f(ScaledWeights<WeightFormat::q2_k>());
  case WeightFormat::q3_k: return f(ScaledWeights<WeightFormat::q3_k>());
  case WeightFormat::q4_k: return f(ScaledWeights<WeightFormat::q4_k>());
  case WeightFormat::q5_k: return f(ScaledWeights<WeightFormat::q5_k>());
  case WeightFormat::q6_k: return f(ScaledWeights<WeightFormat::q6_k>());
  case WeightFormat::iq4_nl: return f(ScaledWeights<WeightFormat::iq4_nl>());
  default: return f(ScaledWeights<WeightFormat::iq4_xs>());
  }
}

} // namespace paceline::gpu::cuda::kernels
