// Products of rows that are rounded to 8 bits: every kernel family against the oracle, bit for bit,
// and the oracle against sums of doubles.
#include "gpu/cpu/int8_rows.hpp"
#include "gpu/gguf_blocks.hpp"
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/rig.hpp"
#include "tests/support/effort.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// A matrix whose rows are rounded to 8 bits, and the numbers that it means.
struct Int8Weight {
  HostMatrix matrix;
  Matrix f32{0, 0};
  std::shared_ptr<const void> owner; ///< Of what `matrix` points to.
};

Int8Weight weight_of(WeightFormat format, int outputs, int inputs, Random& random) {
  Int8Weight made;
  if (is_mx(format)) {
    auto host = std::make_shared<HostWeight>(format, outputs, inputs, random);
    made.matrix = host->matrix;
    made.f32 = host->f32;
    made.owner = host;
  } else {
    auto host = std::make_shared<BlockWeight>(gguf_format_of(format), outputs, inputs, random);
    made.matrix = host->matrix;
    made.f32 = host->f32;
    made.owner = host;
  }
  made.matrix.int8_rows = true;
  return made;
}

std::vector<WeightFormat> integer_formats() {
  std::vector<WeightFormat> all;
  for (int i = 0; i <= int(WeightFormat::iq4_xs); ++i)
    if (cpu::integer_codes(WeightFormat(i)))
      all.push_back(WeightFormat(i));
  return all;
}

/// CPU families that fuse multiplications with additions; all others but the oracle do not.
std::vector<std::string> families() {
  std::vector<std::string> all = fused_kernel_names();
  for (const std::string& name : kernel_names())
    if (name.find("highway") == name.npos)
      all.push_back(name);
  return all;
}

/// Bit for bit, but for which NaN a NaN is.
bool same_bits(const Matrix& a, const Matrix& b) {
  return a.rows == b.rows && a.cols == b.cols &&
         std::ranges::equal(a.values, b.values, [](float x, float y) {
           return (std::isnan(x) && std::isnan(y)) ||
                  std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

/// A row as it is staged.
std::vector<double> rounded(const float* row, int inputs) {
  std::vector<double> values;
  for (int first = 0; first < inputs; first += mx_block) {
    const int count = std::min(mx_block, inputs - first);
    const cpu::Int8Block block = cpu::round_to_int8(row + first, count);
    for (int i = 0; i < count; ++i)
      values.push_back(double(block.scale) * block.codes[std::size_t(i)]);
  }
  return values;
}

} // namespace

TEST_CASE("formats whose codes are integers of 8 bits have them, and no others") {
  CHECK(integer_formats() ==
        std::vector<WeightFormat>{WeightFormat::mxfp6, WeightFormat::mxfp4, WeightFormat::mxint8,
                                  WeightFormat::q4_0, WeightFormat::q4_1, WeightFormat::q5_0,
                                  WeightFormat::q5_1, WeightFormat::q8_0, WeightFormat::q2_k,
                                  WeightFormat::q3_k, WeightFormat::q4_k, WeightFormat::q5_k,
                                  WeightFormat::q6_k, WeightFormat::iq4_nl, WeightFormat::iq4_xs});
}

TEST_CASE("a block is rounded to the nearest of 255 steps of its largest input") {
  Random random(31);
  std::vector<float> inputs = random.floats(mx_block);
  inputs[7] = -4;
  const cpu::Int8Block block = cpu::round_to_int8(inputs.data(), mx_block);
  CHECK(block.codes[7] == -127);
  CHECK(block.scale == 4.0f / 127);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CHECK(std::abs(inputs[i] - block.scale * float(block.codes[i])) <= block.scale * 0.50001f);
  const std::vector<float> tiny(mx_block, 1e-35f);
  CHECK(cpu::round_to_int8(tiny.data(), mx_block).scale == 0);
  inputs[3] = INFINITY;
  CHECK(std::isnan(cpu::round_to_int8(inputs.data(), mx_block).scale));
}

TEST_CASE("the oracle's product of 8-bit rows is that of what rows and weights mean") {
  const Rig oracle("scalar", 1);
  Random random(32);
  for (const WeightFormat format : integer_formats()) {
    CAPTURE(std::string(to_string(format)));
    const Int8Weight host = weight_of(format, 33, 512, random);
    const auto weight = oracle.device->pack({&host.matrix, 1}).value();
    Matrix in(3, 512, random);
    const Matrix out = product(oracle, *weight, in);
    for (int r = 0; r < in.rows; ++r) {
      const std::vector<double> row = rounded(in.tensor().row(r), in.cols);
      for (int o = 0; o < 33; ++o) {
        double exact = 0, size = 0;
        for (int i = 0; i < 512; ++i) {
          exact += row[std::size_t(i)] * double(host.f32.at(o, i));
          size += std::abs(row[std::size_t(i)] * double(host.f32.at(o, i)));
        }
        CHECK(std::abs(out.at(r, o) - exact) < 1e-5 * (1 + 10 * size));
      }
    }
  }
}

TEST_CASE("a product of 8-bit rows has the same bits in all families, companies and teams") {
  const Rig oracle("scalar", 1);
  Random random(33);
  for (const WeightFormat format : integer_formats())
    for (const int outputs : {1, 100, 210}) {
      const Int8Weight host = weight_of(format, outputs, 768, random);
      Matrix in(70, 768, random);
      in.tensor().row(5)[70] = 1e30f; // Others of its block become 0.
      std::fill_n(in.tensor().row(6), 64, 0.0f);
      in.tensor().row(7)[3] = NAN;
      const auto expected_weight = oracle.device->pack({&host.matrix, 1}).value();
      const Matrix expected = product(oracle, *expected_weight, in, true);
      for (const std::string& name : families())
        for (const int threads : {1, 3}) {
          if (paceline::testing::sanitized && threads == 1)
            continue;
          CAPTURE(name);
          CAPTURE(std::string(to_string(format)));
          CAPTURE(outputs);
          const Rig rig(name, threads);
          const auto weight = rig.device->pack({&host.matrix, 1}).value();
          for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 24, 37, 70}) {
            CAPTURE(rows);
            Matrix part = in.slice(70 - rows, rows);
            CHECK(same_bits(product(rig, *weight, part, true), expected.slice(70 - rows, rows)));
          }
        }
    }
}

TEST_CASE("scales that are extreme or none are as in the oracle, and inputs may end in a block") {
  const Rig oracle("scalar", 1);
  Random random(34);
  for (const WeightFormat format :
       {WeightFormat::mxfp6, WeightFormat::mxfp4, WeightFormat::mxint8}) {
    HostWeight host(format, 70, 300, random);
    for (std::size_t at = 0; at < host.before.size(); ++at)
      host.before[at] = std::ldexp(random.next(), at / 300 < 32 ? -3 : at / 300 == 40 ? 70 : -100);
    host.before[50 * 300 + 40] = NAN;
    host.matrix.int8_rows = true;
    const auto expected_weight = oracle.device->pack({&host.matrix, 1}).value();
    Matrix in(40, 300, random);
    const Matrix expected = product(oracle, *expected_weight, in);
    CHECK(std::isnan(expected.at(0, 50)));
    CHECK(!std::isnan(expected.at(0, 49)));
    for (const std::string& name : families()) {
      CAPTURE(name);
      const Rig rig(name, 1);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      for (const int rows : {1, 9, 40}) {
        CAPTURE(rows);
        Matrix some = in.slice(0, rows);
        CHECK(same_bits(product(rig, *weight, some), expected.slice(0, rows)));
      }
    }
  }
}

TEST_CASE("a code is its number in every lane and place of every family") {
  Random random(35);
  for (const WeightFormat format : integer_formats()) {
    const Int8Weight host = weight_of(format, 48, 512, random);
    Matrix in(12, 512); // One input at a time, in as many rows as make tiles of AMX pay.
    for (int r = 0; r < in.rows; ++r)
      in.tensor().row(r)[r * 43] = 127;
    for (const std::string& name : families()) {
      CAPTURE(name);
      CAPTURE(std::string(to_string(format)));
      const Rig rig(name, 1);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      const Matrix out = product(rig, *weight, in);
      for (int r = 0; r < in.rows; ++r)
        for (int o = 0; o < 48; ++o)
          CHECK(out.at(r, o) == doctest::Approx(127 * host.f32.at(o, r * 43)).epsilon(1e-5));
    }
  }
}
