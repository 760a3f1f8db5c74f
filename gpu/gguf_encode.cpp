#include "gpu/gguf_encode.hpp"

#include "base/bf16.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

namespace paceline::gpu {
namespace {

using namespace gguf;

constexpr int fitting_rounds = 4; ///< Of least squares; later ones hardly change a code.
constexpr float largest_half = 65504;

/// Rounds to nearest, ties to even; what is too large becomes the largest half.
half to_half(float x) {
  const auto sign = half(std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000);
  const float size = std::min(std::abs(x), largest_half);
  if (size < 0x1p-14f) // a subnormal half, or zero
    return half(sign | half(std::lrint(size * 0x1p24f)));
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(size) - (112u << 23);
  return half(sign | (shifted + 0xFFF + (shifted >> 13 & 1)) >> 13);
}

float half_value(half bits) {
  return base::to_float(std::bit_cast<base::f16>(bits));
}

/// The whole numbers that codes count.
struct CodeRange {
  int least;
  int most;
};

/// Returns the whole number within the range that times `scale` is nearest to the value.
int nearest_code(float value, float scale, CodeRange range) {
  if (scale == 0)
    return 0;
  return int(std::lrint(std::clamp(value / scale, float(range.least), float(range.most))));
}

/// A scale for a run of values, and the squared error of the nearest codes.
struct FittedScale {
  half scale = 0;
  double error = 0;
};

/// Takes in turn the nearest codes for a scale, and the best scale for these codes.
FittedScale fit_scale(std::span<const float> values, CodeRange range, float first) {
  FittedScale best;
  float scale = first;
  for (int round = 0; round < fitting_rounds; ++round) {
    const half stored = to_half(scale);
    double error = 0;
    double products = 0;
    double squares = 0;
    for (const float value : values) {
      const int code = nearest_code(value, half_value(stored), range);
      const double off = double(value) - double(code) * double(half_value(stored));
      error += off * off;
      products += code * double(value);
      squares += double(code) * code;
    }
    if (round == 0 || error < best.error)
      best = {stored, error};
    if (squares == 0)
      break;
    scale = float(products / squares);
  }
  return best;
}

/// Returns the best scale that is found from several beginnings: the value that is farthest from
/// zero becomes one end of the range, or lies a little outside.
half best_scale(std::span<const float> values, CodeRange range) {
  const float farthest =
      *std::ranges::max_element(values, [](float a, float b) { return std::abs(a) < std::abs(b); });
  FittedScale best = fit_scale(values, range, farthest / float(range.least));
  for (const float end : {float(range.least) - 0.5f, float(range.least) + 0.5f, float(range.most)})
    if (const FittedScale other = fit_scale(values, range, farthest / end);
        other.error < best.error)
      best = other;
  return best.scale;
}

/// Puts the codes of 32 elements into 16 bytes.
template <class F>
void put_nibbles(std::uint8_t* bytes, const F& code) {
  for (int i = 0; i < small / 2; ++i)
    bytes[i] = std::uint8_t((code(i) & 0xF) | (code(small / 2 + i) & 0xF) << 4);
}

void encode_to(ScaleChoice /*choice*/, const float* values, Q4_0& to) {
  constexpr CodeRange range{-8, 7};
  to.scale = best_scale({values, small}, range);
  put_nibbles(to.codes,
              [&](int i) { return nearest_code(values[i], half_value(to.scale), range) + 8; });
}

void encode_to(ScaleChoice /*choice*/, const float* values, Q5_0& to) {
  constexpr CodeRange range{-16, 15};
  to.scale = best_scale({values, small}, range);
  const auto code = [&](int i) {
    return nearest_code(values[i], half_value(to.scale), range) + 16;
  };
  put_nibbles(to.codes, code);
  for (int i = 0; i < small; ++i)
    to.high[i / 8] = std::uint8_t(to.high[i / 8] | (code(i) >> 4) << i % 8);
}

void encode_to(ScaleChoice /*choice*/, const float* values, Q8_0& to) {
  constexpr CodeRange range{-127, 127};
  to.scale = best_scale({values, small}, range);
  for (int i = 0; i < small; ++i)
    to.codes[i] = std::int8_t(nearest_code(values[i], half_value(to.scale), range));
}

void encode_to(ScaleChoice choice, const float* values, Mxfp4& to) {
  const MxBlock block = encode_block(WeightFormat::mxfp4, choice, values);
  to.scale = block.scale;
  put_nibbles(to.codes, [&](int i) { return block.codes[std::size_t(i)]; });
}

constexpr CodeRange four_bit_codes{0, 15};

/// A part of a Q4_K: code * scale - least, neither of which is below 0.
struct FittedLine {
  float scale = 0;
  float least = 0;
  double error = 0;
};

/// Does what fit_scale does, for a scale and a least value.
FittedLine fit_line(std::span<const float> values, FittedLine first) {
  FittedLine best;
  FittedLine line = first;
  const auto count = double(values.size());
  for (int round = 0; round < fitting_rounds; ++round) {
    line.error = 0;
    double codes = 0;
    double squares = 0;
    double sum = 0;
    double products = 0;
    for (const float value : values) {
      const double code = nearest_code(value + line.least, line.scale, four_bit_codes);
      const double off = double(value) + double(line.least) - code * double(line.scale);
      line.error += off * off;
      codes += code;
      squares += code * code;
      sum += double(value);
      products += code * double(value);
    }
    if (round == 0 || line.error < best.error)
      best = line;
    const double spread = count * squares - codes * codes;
    if (spread <= 0)
      break;
    double scale = (count * products - codes * sum) / spread;
    double least = (codes * scale - sum) / count;
    if (least < 0) {
      least = 0;
      scale = products / squares;
    }
    if (scale <= 0)
      break;
    line = {float(scale), float(least)};
  }
  return best;
}

FittedLine best_line(std::span<const float> values) {
  const auto [low, high] = std::ranges::minmax(values);
  const float least = std::max(0.0f, -low);
  const float scale = std::max(0.0f, high + least) / float(four_bit_codes.most);
  FittedLine best = fit_line(values, {scale, least});
  for (const float part : {0.9f, 0.8f}) // what is outermost is cut off
    if (const FittedLine other = fit_line(values, {part * scale, part * least});
        other.error < best.error)
      best = other;
  return best;
}

/// Puts eight scales and eight least values of six bits, as set_six_bits in gguf_blocks.cpp reads
/// them.
void put_six_bits(const std::array<int, 8>& scales, const std::array<int, 8>& leasts,
                  std::uint8_t* bytes) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[i] = std::uint8_t(scales[i] | (scales[4 + i] >> 4) << 6);
    bytes[4 + i] = std::uint8_t(leasts[i] | (leasts[4 + i] >> 4) << 6);
    bytes[8 + i] = std::uint8_t((scales[4 + i] & 0xF) | (leasts[4 + i] & 0xF) << 4);
  }
}

void encode_to(ScaleChoice /*choice*/, const float* values, Q4_K& to) {
  constexpr CodeRange six_bits{0, 63};
  constexpr std::size_t parts = large / small;
  std::array<FittedLine, parts> lines;
  for (std::size_t part = 0; part < parts; ++part)
    lines[part] = best_line({values + part * small, small});
  to.scale = to_half(std::ranges::max(lines, {}, &FittedLine::scale).scale / float(six_bits.most));
  to.least = to_half(std::ranges::max(lines, {}, &FittedLine::least).least / float(six_bits.most));
  std::array<int, parts> scales;
  std::array<int, parts> leasts;
  for (std::size_t part = 0; part < parts; ++part) {
    scales[part] = nearest_code(lines[part].scale, half_value(to.scale), six_bits);
    leasts[part] = nearest_code(lines[part].least, half_value(to.least), six_bits);
  }
  put_six_bits(scales, leasts, to.scales);
  for (int i = 0; i < large; ++i) {
    const auto part = std::size_t(i / small);
    const int code = nearest_code(values[i] + half_value(to.least) * float(leasts[part]),
                                  half_value(to.scale) * float(scales[part]), four_bit_codes);
    std::uint8_t& byte = to.codes[i / 64 * 32 + i % 32];
    byte = std::uint8_t(byte | code << (i % 64 < 32 ? 0 : 4));
  }
}

template <class Block>
void encode_as(ScaleChoice choice, const float* values, std::byte* to) {
  Block block{};
  encode_to(choice, values, block);
  std::memcpy(to, &block, sizeof block);
}

} // namespace

void encode_block(GgufFormat format, ScaleChoice choice, const float* values, std::byte* block) {
  switch (format) {
  case GgufFormat::q4_0: return encode_as<Q4_0>(choice, values, block);
  case GgufFormat::q5_0: return encode_as<Q5_0>(choice, values, block);
  case GgufFormat::q8_0: return encode_as<Q8_0>(choice, values, block);
  case GgufFormat::q4_k: return encode_as<Q4_K>(choice, values, block);
  case GgufFormat::mxfp4: return encode_as<Mxfp4>(choice, values, block);
  default: break;
  }
  assert(false && "not one of encoded_gguf_formats");
}

} // namespace paceline::gpu
