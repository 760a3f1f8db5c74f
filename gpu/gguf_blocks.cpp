#include "gpu/gguf_blocks.hpp"

#include "base/bf16.hpp"
#include "gpu/mx.hpp"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace paceline::gpu {
namespace {

using namespace gguf;

// Files lay blocks one behind the other.
static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 && sizeof(Q5_1) == 24);
static_assert(sizeof(Q8_0) == 34 && sizeof(Iq4Nl) == 18 && sizeof(Mxfp4) == 17);
static_assert(sizeof(Q2_K) == 84 && sizeof(Q3_K) == 110 && sizeof(Q4_K) == 144);
static_assert(sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210 && sizeof(Iq4Xs) == 136);
static_assert(sizeof(Nvfp4) == 36);

/// E2M1; a zero has no sign here.
constexpr float e2m1_values[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
constexpr int iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

float number(half bits) {
  return base::to_float(std::bit_cast<base::f16>(bits));
}

int low(std::uint8_t byte) {
  return byte & 0xF;
}
int high(std::uint8_t byte) {
  return byte >> 4;
}

/// The code of element i of a run of 32 in 16 bytes.
int nibble(const std::uint8_t* codes, int i) {
  return i < 16 ? low(codes[i]) : high(codes[i - 16]);
}
int bit(const std::uint8_t* bits, int i) {
  return bits[i / 8] >> (i % 8) & 1;
}

void decode(const Q4_0& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float(nibble(b.codes, i) - 8);
}

void decode(const Q4_1& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float(nibble(b.codes, i)) + number(b.least);
}

void decode(const Q5_0& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float((nibble(b.codes, i) | bit(b.high, i) << 4) - 16);
}

void decode(const Q5_1& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float(nibble(b.codes, i) | bit(b.high, i) << 4) + number(b.least);
}

void decode(const Q8_0& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float(b.codes[i]);
}

/// Two bits of element i, of 128 elements in each 32 bytes.
int two_bits(const std::uint8_t* codes, int i) {
  return codes[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

void decode(const Q2_K& b, float* values) {
  for (int i = 0; i < large; ++i) {
    const float scale = number(b.scale) * float(low(b.scales[i / 16]));
    const float least = number(b.least) * float(high(b.scales[i / 16]));
    values[i] = scale * float(two_bits(b.codes, i)) - least;
  }
}

void decode(const Q3_K& b, float* values) {
  for (int i = 0; i < large; ++i) {
    const int part = i / 16;
    const int low_bits = part < 8 ? low(b.scales[part]) : high(b.scales[part - 8]);
    const int high_bits = b.scales[8 + part % 4] >> (2 * (part / 4)) & 3;
    const float scale = number(b.scale) * float((low_bits | high_bits << 4) - 32);
    const int third = b.high[i % 32] >> (i / 32) & 1;
    values[i] = scale * float((two_bits(b.codes, i) | third << 2) - 4);
  }
}

/// Eight scales and eight least values, of six bits each: of the first four they are the low bits
/// of a byte, of the others four bits stand in the last bytes and two above the first four's.
struct KScales {
  const std::uint8_t* bytes;

  int scale(int i) const {
    return i < 4 ? bytes[i] & 0x3F : low(bytes[4 + i]) | (bytes[i - 4] >> 6) << 4;
  }
  int least(int i) const {
    return i < 4 ? bytes[4 + i] & 0x3F : high(bytes[4 + i]) | (bytes[i] >> 6) << 4;
  }
};

/// Four bits of element i, of 64 elements in each 32 bytes.
int four_bits(const std::uint8_t* codes, int i) {
  const std::uint8_t byte = codes[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? low(byte) : high(byte);
}

void decode(const Q4_K& b, float* values) {
  const KScales scales{b.scales};
  for (int i = 0; i < large; ++i) {
    const float scale = number(b.scale) * float(scales.scale(i / 32));
    const float least = number(b.least) * float(scales.least(i / 32));
    values[i] = scale * float(four_bits(b.codes, i)) - least;
  }
}

void decode(const Q5_K& b, float* values) {
  const KScales scales{b.scales};
  for (int i = 0; i < large; ++i) {
    const float scale = number(b.scale) * float(scales.scale(i / 32));
    const float least = number(b.least) * float(scales.least(i / 32));
    const int fifth = b.high[i % 32] >> (i / 32) & 1;
    values[i] = scale * float(four_bits(b.codes, i) | fifth << 4) - least;
  }
}

void decode(const Q6_K& b, float* values) {
  for (int i = 0; i < large; ++i) {
    const std::uint8_t byte = b.low[i / 128 * 64 + i % 64];
    const int low_bits = i % 128 < 64 ? low(byte) : high(byte);
    const int high_bits = two_bits(b.high, i);
    const float scale = number(b.scale) * float(b.scales[i / 16]);
    values[i] = scale * float((low_bits | high_bits << 4) - 32);
  }
}

void decode(const Iq4Nl& b, float* values) {
  for (int i = 0; i < small; ++i)
    values[i] = number(b.scale) * float(iq4_values[nibble(b.codes, i)]);
}

void decode(const Iq4Xs& b, float* values) {
  for (int i = 0; i < large; ++i) {
    const int part = i / 32;
    const int low_bits = part % 2 == 0 ? low(b.low[part / 2]) : high(b.low[part / 2]);
    const int high_bits = b.high[part / 4] >> (2 * (part % 4)) & 3;
    const float scale = number(b.scale) * float((low_bits | high_bits << 4) - 32);
    values[i] = scale * float(iq4_values[nibble(b.codes + 16 * part, i % 32)]);
  }
}

void decode(const Mxfp4& b, float* values) {
  const float scale = decode_scale(b.scale);
  for (int i = 0; i < small; ++i)
    values[i] = e2m1_values[nibble(b.codes, i)] * scale;
}

/// What would be NaN is nothing.
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

/// Calls with a block of the format's kind.
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
  switch (format) {
  case GgufFormat::q2_k:
  case GgufFormat::q3_k:
  case GgufFormat::q4_k:
  case GgufFormat::q5_k:
  case GgufFormat::q6_k:
  case GgufFormat::iq4_xs: return large;
  case GgufFormat::nvfp4: return 64;
  default: break;
  }
  return small;
}

std::size_t block_bytes(GgufFormat format) noexcept {
  return with_block(format, [](const auto& block) { return sizeof block; });
}

const char* to_string(GgufFormat format) noexcept {
  switch (format) {
  case GgufFormat::q4_0: return "q4_0";
  case GgufFormat::q4_1: return "q4_1";
  case GgufFormat::q5_0: return "q5_0";
  case GgufFormat::q5_1: return "q5_1";
  case GgufFormat::q8_0: return "q8_0";
  case GgufFormat::q2_k: return "q2_k";
  case GgufFormat::q3_k: return "q3_k";
  case GgufFormat::q4_k: return "q4_k";
  case GgufFormat::q5_k: return "q5_k";
  case GgufFormat::q6_k: return "q6_k";
  case GgufFormat::iq4_nl: return "iq4_nl";
  case GgufFormat::iq4_xs: return "iq4_xs";
  case GgufFormat::mxfp4: return "mxfp4";
  case GgufFormat::nvfp4: break;
  }
  return "nvfp4";
}

std::optional<GgufFormat> gguf_format(std::uint32_t type) noexcept {
  for (const GgufFormat format : gguf_formats)
    if (std::uint32_t(format) == type)
      return format;
  return {};
}

void decode_block(GgufFormat format, const std::byte* block, float* values) {
  with_block(format, [&](auto own) {
    std::memcpy(&own, block, sizeof own);
    decode(own, values);
  });
}

} // namespace paceline::gpu
