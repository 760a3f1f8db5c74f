// Products with microscaling weights: every kernel family against the bf16 weights that they mean.
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

struct ScaledShape {
  int outputs;
  int inputs;
};

// The bits of bf16 that numbers become in a format.
std::vector<std::uint16_t> decoded(WeightFormat format, const std::vector<float>& values,
                                   int cols) {
  std::vector<std::uint16_t> bits;
  for (std::size_t row = 0; row < values.size(); row += std::size_t(cols))
    for (int first = 0; first < cols; first += mx_block) {
      float block[mx_block] = {};
      const int count = std::min(mx_block, cols - first);
      std::copy_n(values.begin() + std::ptrdiff_t(row) + first, count, block);
      decode_block(format, encode_block(format, ScaleChoice::search, block), block);
      for (int i = 0; i < count; ++i)
        bits.push_back(base::to_bf16(block[i]).bits);
    }
  return bits;
}

// Weights whose blocks, and rows whose numbers, have exponents from all over a range.
struct Spread {
  int least_scale, most_scale; // Of a block's largest element.
  int least_row, most_row;
};

} // namespace

TEST_CASE(
    "a microscaling weight's product is, bit for bit, that of the bf16 weight it decodes to") {
  Random random(12);
  for (const std::string& name : backends())
    for (const WeightFormat format : mx_formats)
      for (const ScaledShape& shape : {ScaledShape{100, 50}, {40, 1540}, {64, 256}}) {
        CAPTURE(name);
        CAPTURE(std::string(to_string(format)));
        const HostWeight host(format, shape.outputs, shape.inputs, random);
        std::vector<std::uint16_t> narrow;
        for (const float value : host.f32.values) {
          narrow.push_back(base::to_bf16(value).bits);
          REQUIRE(base::to_float(base::bf16{narrow.back()}) == value);
        }
        const HostMatrix plain{DType::bf16, narrow.data(), shape.outputs, shape.inputs};
        const Rig rig(name, 2);
        const auto weight = rig.device->pack({&host.matrix, 1}).value();
        const auto expected = rig.device->pack({&plain, 1}).value();
        CHECK(weight->bytes() < expected->bytes() * 3 / 4);
        for (const int rows : {1, 2, 3, 4, 5, 16, 40, 70}) {
          Matrix in(rows, shape.inputs, random);
          CHECK(product(rig, *weight, in, true) == product(rig, *expected, in, true));
        }
      }
}

TEST_CASE("a microscaling product's bits do not depend on how far apart scales and rows are") {
  constexpr int outputs = 70, inputs = 300;
  constexpr Spread spreads[] = {
      {-22, 8, -60, 15}, {-31, 12, -30, 0}, {-70, 30, -90, 40}, {-90, -90, 0, 0}, {90, 90, 0, 0}};
  Random random(14);
  const auto between = [&](int least, int most) { return least + random.below(most - least + 1); };
  for (const std::string& name : backends())
    for (const WeightFormat format : mx_formats)
      for (const Spread& spread : spreads) {
        CAPTURE(name);
        CAPTURE(std::string(to_string(format)));
        HostWeight host(format, outputs, inputs, random);
        int exponent = 0;
        for (std::size_t at = 0; at < host.before.size(); ++at) {
          if (at % inputs % mx_block == 0)
            exponent =
                random.below(20) == 0 ? -300 : between(spread.least_scale, spread.most_scale);
          host.before[at] = std::ldexp(random.next(), exponent);
        }
        const auto plain = decoded(format, host.before, inputs);
        const HostMatrix matrix{DType::bf16, plain.data(), outputs, inputs};
        const Rig rig(name, 2);
        const auto weight = rig.device->pack({&host.matrix, 1}).value();
        const auto expected = rig.device->pack({&matrix, 1}).value();
        for (const int rows : {1, 2, 3, 4, 5, 8, 9}) {
          Matrix in(rows, inputs, random);
          for (float& x : in.values)
            x = random.below(9) == 0 ? 0
                                     : std::ldexp(x, between(spread.least_row, spread.most_row));
          CHECK(product(rig, *weight, in) == product(rig, *expected, in));
        }
      }
}

TEST_CASE("a block that is not a number makes its output NaN, and no other") {
  Random random(13);
  for (const std::string& name : backends())
    for (const WeightFormat format : mx_formats) {
      HostWeight host(format, 40, 100, random);
      host.before[17 * 100 + 40] = NAN;
      const Rig rig(name, 1);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      for (const int rows : {1, 9}) {
        Matrix in(rows, 100, random);
        const Matrix out = product(rig, *weight, in);
        for (int r = 0; r < rows; ++r)
          for (int o = 0; o < 40; ++o)
            CHECK(std::isnan(out.at(r, o)) == (o == 17));
      }
    }
}

TEST_CASE("every code of every microscaling format is read as the number that it is, from files") {
  constexpr int blocks = 256 / mx_block;
  for (const WeightFormat format : mx_formats) {
    CAPTURE(std::string(to_string(format)));
    const MxElement& element = element_of(format);
    const int bits = element.bits();
    std::vector<std::uint8_t> codes;
    std::vector<std::uint8_t> scales;
    Matrix expected(20, blocks * mx_block);
    for (int r = 0; r < expected.rows; ++r)
      for (int b = 0; b < blocks; ++b) {
        MxBlock block{std::uint8_t(20 + (r * 37 + b * 59) % 200), {}};
        for (int i = 0; i < mx_block; ++i) { // In another order in each row.
          const int code = ((b * mx_block + i) * 5 + r * 11) & ((1 << bits) - 1);
          const bool number = std::isfinite(decode_element(element, std::uint8_t(code)));
          block.codes[std::size_t(i)] = std::uint8_t(number ? code : 1);
        }
        decode_block(format, block, expected.tensor().row(r) + b * mx_block);
        scales.push_back(block.scale);
        codes.resize(codes.size() + std::size_t(code_bytes(bits)));
        store_codes(bits, block.codes.data(), codes.data() + codes.size() - code_bytes(bits));
      }
    scales[0] = mx_nan_scale;
    std::fill_n(expected.values.begin(), mx_block, 0.0f);
    HostMatrix stored{DType::f32, codes.data(), expected.rows, expected.cols};
    stored.quantization = Quantization{format};
    stored.block_scales = scales.data();
    std::vector<TokenId> tokens(std::size_t(expected.rows));
    std::iota(tokens.begin(), tokens.end(), 0);
    for (const std::string& name : backends()) {
      CAPTURE(name);
      const Rig rig(name, 2);
      const auto table = rig.device->pack({&stored, 1}).value();
      Matrix out(expected.rows, expected.cols);
      rig.run([&](Operations& ops) { ops.embed(out.tensor(), *table, tokens, 1); });
      for (int i = 0; i < mx_block; ++i)
        CHECK(std::isnan(std::exchange(out.tensor().row(0)[i], 0.0f)));
      CHECK(out == expected);
    }
  }
}

TEST_CASE("the lowest integer, which only files have, is multiplied as the number that it is") {
  constexpr int outputs = 48, inputs = 96; // Tiles of 16: without it, once, and in every output.
  std::vector<std::uint8_t> codes, scales;
  std::vector<std::uint16_t> numbers;
  for (int at = 0; at < outputs * inputs; at += mx_block) {
    MxBlock block{std::uint8_t(120 + at % 7), {}};
    for (int i = 0; i < mx_block; ++i)
      block.codes[std::size_t(i)] = std::uint8_t((at * 5 + i * 3) | 1);
    const int output = at / inputs;
    if (output == 20 || output >= 32)
      block.codes[std::size_t(output % mx_block)] = 0x80;
    float values[mx_block];
    decode_block(WeightFormat::mxint8, block, values);
    for (const float value : values)
      numbers.push_back(base::to_bf16(value).bits);
    scales.push_back(block.scale);
    codes.insert(codes.end(), block.codes.begin(), block.codes.end());
  }
  HostMatrix stored{DType::f32, codes.data(), outputs, inputs};
  stored.quantization = Quantization{WeightFormat::mxint8};
  stored.block_scales = scales.data();
  const HostMatrix plain{DType::bf16, numbers.data(), outputs, inputs};
  Random random(15);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    const auto weight = rig.device->pack({&stored, 1}).value();
    const auto expected = rig.device->pack({&plain, 1}).value();
    for (const int rows : {1, 5, 40}) {
      Matrix in(rows, inputs, random);
      CHECK(product(rig, *weight, in) == product(rig, *expected, in));
    }
  }
}
