#include "gpu/gguf_blocks.hpp"

#include "base/bf16.hpp"
#include "gpu/mx.hpp"

#include <bit>
#include <cstring>
#include <iterator>

namespace paceline::gpu {
namespace {

using namespace gguf;

// Files store blocks without gaps, so no type may have padding.
static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 && sizeof(Q5_1) == 24);
static_assert(sizeof(Q8_0) == 34 && sizeof(Iq4Nl) == 18 && sizeof(Mxfp4) == 17);
static_assert(sizeof(Q2_K) == 84 && sizeof(Q3_K) == 110 && sizeof(Q4_K) == 144);
static_assert(sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210 && sizeof(Iq4Xs) == 136);
static_assert(sizeof(Nvfp4) == 36);

/// Values of the E2M1 codes; both zeros are +0 here.
constexpr float e2m1_values[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

float number(half bits) {
  return base::to_float(std::bit_cast<base::f16>(bits));
}

int low(std::uint8_t byte) {
  return byte & 0xF;
}
int high(std::uint8_t byte) {
  return byte >> 4;
}

/// Returns the code of element i of a run of 32 in 16 bytes.
std::uint8_t nibble(const std::uint8_t* codes, int i) {
  return std::uint8_t(i < 16 ? low(codes[i]) : high(codes[i - 16]));
}
int bit(const std::uint8_t* bits, int i) {
  return bits[i / 8] >> (i % 8) & 1;
}

/// Changes the sign, for files whose least values are subtracted.
half negative(half x) {
  return x ^ 0x8000;
}

/// Sets each code to code(run, i), that of element i of a run of 32. Formats take the codes of a
/// run from the same bits of bytes that follow each other: compilers make vectors of them.
template <class F>
void set_runs(ScaledBlock& to, const F& code) {
  for (int run = 0; run < large / small; ++run)
    for (int i = 0; i < small; ++i)
      to.codes[std::size_t(run * small + i)] = std::uint8_t(code(run, i));
}
template <class F>
void set_scales(ScaledBlock& to, int parts, const F& scale) {
  for (int i = 0; i < parts; ++i)
    to.scales[std::size_t(i)] = std::int8_t(scale(i));
}
template <class F>
void set_leasts(ScaledBlock& to, int parts, const F& least) {
  for (int i = 0; i < parts; ++i)
    to.leasts[std::size_t(i)] = std::int8_t(least(i));
}

/// Sets 32 codes to the four bits that 16 bytes have of each.
void set_nibbles(std::uint8_t* codes, const std::uint8_t* bytes) {
  using Sixteen [[gnu::vector_size(16)]] = std::uint8_t;
  Sixteen both;
  std::memcpy(&both, bytes, sizeof both);
  const Sixteen halves[] = {both & 0xF, both >> 4};
  std::memcpy(codes, halves, sizeof halves);
}

void add_fifth_bits(ScaledBlock& to, const std::uint8_t* bits) {
  for (int i = 0; i < small; ++i)
    to.codes[std::size_t(i)] |= std::uint8_t(bit(bits, i) << 4);
}

/// Sets what a block has that consists of one part.
void set_one_part(ScaledBlock& to, half scale, half least = 0) {
  to.scale = scale;
  to.least = least;
  to.scales[0] = to.leasts[0] = 1;
}

void load(const Q4_0& b, ScaledBlock& out) {
  set_one_part(out, b.scale);
  set_nibbles(out.codes.data(), b.codes);
}

void load(const Q4_1& b, ScaledBlock& out) {
  set_one_part(out, b.scale, b.least);
  set_nibbles(out.codes.data(), b.codes);
}

void load(const Q5_0& b, ScaledBlock& out) {
  set_one_part(out, b.scale);
  set_nibbles(out.codes.data(), b.codes);
  add_fifth_bits(out, b.high);
}

void load(const Q5_1& b, ScaledBlock& out) {
  set_one_part(out, b.scale, b.least);
  set_nibbles(out.codes.data(), b.codes);
  add_fifth_bits(out, b.high);
}

void load(const Q8_0& b, ScaledBlock& out) {
  set_one_part(out, b.scale);
  std::memcpy(out.codes.data(), b.codes, small);
}

/// Returns two bits of element i of a run; each 32 bytes hold those of four runs.
int two_bits(const std::uint8_t* codes, int run, int i) {
  return codes[run / 4 * small + i] >> (2 * (run % 4)) & 3;
}
/// Returns a further bit of element i of a run; 32 bytes hold those of all runs.
int one_bit(const std::uint8_t* bits, int run, int i) {
  return bits[i] >> run & 1;
}

void load(const Q2_K& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = negative(b.least);
  set_scales(out, large / 16, [&](int i) { return low(b.scales[i]); });
  set_leasts(out, large / 16, [&](int i) { return high(b.scales[i]); });
  set_runs(out, [&](int run, int i) { return two_bits(b.codes, run, i); });
}

void load(const Q3_K& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = 0;
  set_scales(out, large / 16, [&](int i) {
    const int low_bits = i < 8 ? low(b.scales[i]) : high(b.scales[i - 8]);
    const int high_bits = b.scales[8 + i % 4] >> (2 * (i / 4)) & 3;
    return (low_bits | high_bits << 4) - 32;
  });
  set_runs(out, [&](int run, int i) {
    return two_bits(b.codes, run, i) | one_bit(b.high, run, i) << 2;
  });
}

/// Sets eight scales and eight least values of six bits each. The first four of either are the low
/// bits of a byte. The other four have four bits in the last bytes and two in the high bits of the
/// bytes of the first four.
void set_six_bits(ScaledBlock& to, const std::uint8_t* bytes) {
  set_scales(to, large / 32, [&](int i) {
    return i < 4 ? bytes[i] & 0x3F : low(bytes[4 + i]) | (bytes[i - 4] >> 6) << 4;
  });
  set_leasts(to, large / 32, [&](int i) {
    return i < 4 ? bytes[4 + i] & 0x3F : high(bytes[4 + i]) | (bytes[i] >> 6) << 4;
  });
}

/// Returns the four bits of element i of a run; each 32 bytes hold those of two runs.
int four_bits(const std::uint8_t* codes, int run, int i) {
  return codes[run / 2 * small + i] >> (4 * (run % 2)) & 0xF;
}

void load(const Q4_K& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = negative(b.least);
  set_six_bits(out, b.scales);
  set_runs(out, [&](int run, int i) { return four_bits(b.codes, run, i); });
}

void load(const Q5_K& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = negative(b.least);
  set_six_bits(out, b.scales);
  set_runs(out, [&](int run, int i) {
    return four_bits(b.codes, run, i) | one_bit(b.high, run, i) << 4;
  });
}

void load(const Q6_K& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = 0;
  set_scales(out, large / 16, [&](int i) { return b.scales[i]; });
  set_runs(out, [&](int run, int i) { // The low bits of runs that are two apart share bytes.
    const std::uint8_t byte = b.low[(run / 4 * 2 + run % 2) * small + i];
    return (byte >> (run % 4 / 2 * 4) & 0xF) | two_bits(b.high, run, i) << 4;
  });
}

void load(const Iq4Nl& b, ScaledBlock& out) {
  set_one_part(out, b.scale);
  set_nibbles(out.codes.data(), b.codes);
}

void load(const Iq4Xs& b, ScaledBlock& out) {
  out.scale = b.scale;
  out.least = 0;
  set_scales(out, large / 32, [&](int i) {
    const int low_bits = i % 2 == 0 ? low(b.low[i / 2]) : high(b.low[i / 2]);
    const int high_bits = b.high[i / 4] >> (2 * (i % 4)) & 3;
    return (low_bits | high_bits << 4) - 32;
  });
  for (int run = 0; run < large / small; ++run)
    set_nibbles(out.codes.data() + run * small, b.codes + run * small / 2);
}

template <class Block>
concept has_codes = requires(const Block& b, ScaledBlock& to) {
  load(b, to);
};

void decode(const Mxfp4& b, float* values) {
  const float scale = decode_scale(b.scale);
  for (int i = 0; i < small; ++i)
    values[i] = e2m1_values[nibble(b.codes, i)] * scale;
}

/// Returns the scale's value, or 0 for the code that would be NaN.
float nvfp4_scale(std::uint8_t bits) {
  return (bits & 0x7F) == 0x7F ? 0 : decode_element(e4m3, bits & 0x7F);
}

void decode(const Nvfp4& b, float* values) {
  for (int part = 0; part < 4; ++part) {
    const float scale = nvfp4_scale(b.scales[part]);
    for (int i = 0; i < 16; ++i) {
      const std::uint8_t byte = b.codes[part * 8 + i % 8];
      values[part * 16 + i] = e2m1_values[i < 8 ? low(byte) : high(byte)] * scale;
    }
  }
}

/// Calls `call` with a block of the format's type.
template <class F>
decltype(auto) with_block(GgufFormat format, const F& call) {
  switch (format) {
  case GgufFormat::q4_0: return call(Q4_0());
  case GgufFormat::q4_1: return call(Q4_1());
  case GgufFormat::q5_0: return call(Q5_0());
  case GgufFormat::q5_1: return call(Q5_1());
  case GgufFormat::q8_0: return call(Q8_0());
  case GgufFormat::q2_k: return call(Q2_K());
  case GgufFormat::q3_k: return call(Q3_K());
  case GgufFormat::q4_k: return call(Q4_K());
  case GgufFormat::q5_k: return call(Q5_K());
  case GgufFormat::q6_k: return call(Q6_K());
  case GgufFormat::iq4_nl: return call(Iq4Nl());
  case GgufFormat::iq4_xs: return call(Iq4Xs());
  case GgufFormat::mxfp4: return call(Mxfp4());
  case GgufFormat::nvfp4: break;
  }
  return call(Nvfp4());
}

} // namespace

int block_elements(GgufFormat format) noexcept {
  if (format == GgufFormat::nvfp4)
    return 64;
  const auto own = weight_format(format);
  return own && has_scaled_codes(*own) ? scaled_codes(*own).block : small;
}

std::size_t block_bytes(GgufFormat format) noexcept {
  return with_block(format, [](const auto& block) { return sizeof block; });
}

void load_blocks(const ScaledCodes& how, const std::byte* first, std::size_t stride,
                 std::span<ScaledBlock> to) {
  with_block(how.format, [&](auto own) {
    if constexpr (has_codes<decltype(own)>)
      for (std::size_t i = 0; i < to.size(); ++i)
        load(*reinterpret_cast<const decltype(own)*>(first + i * stride), to[i]);
  });
}

void decode_block(const ScaledCodes& how, const ScaledBlock& block, float* values) {
  for (int i = 0; i < how.block; ++i) {
    const auto part = std::size_t(i / how.part);
    const float scale = number(block.scale) * float(block.scales[part]);
    const float least = number(block.least) * float(block.leasts[part]);
    const float scaled = scale * float(how.number(block.codes[std::size_t(i)]));
    values[i] = how.least ? scaled + least : scaled;
  }
}

void decode_block(GgufFormat format, const std::byte* block, float* values) {
  with_block(format, [&](auto own) {
    std::memcpy(&own, block, sizeof own);
    if constexpr (has_codes<decltype(own)>) {
      ScaledBlock scaled;
      load(own, scaled);
      decode_block(scaled_codes(*weight_format(format)), scaled, values);
    } else {
      decode(own, values);
    }
  });
}

} // namespace paceline::gpu
