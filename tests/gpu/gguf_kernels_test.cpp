// Products with weights that are blocks of GGUF files: every kernel family against the numbers that
// the blocks mean, and against itself in other company.
#include "gpu/gguf_blocks.hpp"
#include "tests/gpu/company.hpp"
#include "tests/gpu/gguf_weight.hpp"
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

/// Returns the formats that are multiplied with as they are.
std::vector<GgufFormat> kept_formats() {
  std::vector<GgufFormat> out;
  for (const GgufFormat format : gguf_formats)
    if (weight_format(format))
      out.push_back(format);
  return out;
}

/// What rounding errors are measured by: a product's parts, a scale's and a least value's apart.
Matrix greatest_sums(const Matrix& in, const Matrix& weight) {
  Matrix result(in.rows, weight.rows);
  for (int r = 0; r < in.rows; ++r)
    for (int o = 0; o < weight.rows; ++o) {
      double largest = 0;
      double inputs = 0;
      for (int i = 0; i < in.cols; ++i) {
        largest = std::max(largest, std::abs(double(weight.at(o, i))));
        inputs += std::abs(double(in.at(r, i)));
      }
      result.values[std::size_t(r) * std::size_t(weight.rows) + std::size_t(o)] =
          float(1 + largest * inputs);
    }
  return result;
}

struct BlockedShape {
  int outputs;
  int inputs;
};

} // namespace

TEST_CASE("products with blocks of GGUF files agree with the oracle up to the order of summation") {
  constexpr double tolerance = 2e-6;
  const Rig oracle("scalar", 1);
  Random random(21);
  for (const GgufFormat format : kept_formats())
    for (const BlockedShape& shape : {BlockedShape{100, 256}, {17, 768}, {1, 512}, {640, 1536}}) {
      const BlockWeight host(format, shape.outputs, shape.inputs, random);
      const auto weight = oracle.device->pack({&host.matrix, 1}).value();
      Matrix in(35, shape.inputs, random);
      const Matrix scale = greatest_sums(in, host.f32);
      const Matrix expected[] = {product(oracle, *weight, in), product(oracle, *weight, in, true)};
      for (const std::string& name : backends()) {
        if (is_cuda(name) && shape.outputs > 100)
          continue; // An emulated GPU is slow.
        CAPTURE(name);
        CAPTURE(std::string(to_string(format)));
        CAPTURE(shape.outputs);
        const Rig rig(name, 2);
        const auto own = rig.device->pack({&host.matrix, 1}).value();
        for (const bool add : {false, true})
          CHECK(worst(product(rig, *own, in, add), expected[add], scale) < tolerance);
      }
    }
}

TEST_CASE("the oracle's product with blocks is that of the numbers that they mean") {
  const Rig oracle("scalar", 1);
  Random random(22);
  for (const GgufFormat format : kept_formats()) {
    CAPTURE(std::string(to_string(format)));
    const BlockWeight host(format, 33, 256, random);
    const auto weight = oracle.device->pack({&host.matrix, 1}).value();
    Matrix in(3, 256, random);
    const Matrix scale = greatest_sums(in, host.f32);
    const Matrix out = product(oracle, *weight, in);
    for (int r = 0; r < in.rows; ++r)
      for (int o = 0; o < 33; ++o) {
        double exact = 0;
        for (int i = 0; i < 256; ++i)
          exact += double(base::round_to_bf16(in.at(r, i))) * double(host.f32.at(o, i));
        CHECK(std::abs(out.at(r, o) - exact) < 1e-5 * double(scale.at(r, o)));
      }
  }
}

TEST_CASE("codes of all formats are their numbers in every lane and place, whatever the family") {
  Random random(23);
  for (const GgufFormat format : kept_formats()) {
    const BlockWeight host(format, 48, 512, random);
    Matrix in(12, 512); // One input at a time.
    for (int r = 0; r < in.rows; ++r)
      in.tensor().row(r)[r * 43] = 1;
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(std::string(to_string(format)));
      const Rig rig(name, 1);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      const Matrix out = product(rig, *weight, in);
      for (int r = 0; r < in.rows; ++r)
        for (int o = 0; o < 48; ++o)
          CHECK(out.at(r, o) == doctest::Approx(host.f32.at(o, r * 43)).epsilon(1e-6));
    }
  }
}

TEST_CASE("a row's product with blocks has the same bits alone, in any batch and on any ranks") {
  constexpr int counts[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33, 70};
  Random random(24);
  for (const GgufFormat format : kept_formats()) {
    CAPTURE(std::string(to_string(format)));
    const BlockWeight host(format, 200, 768, random);
    Matrix in(70, 768, random);
    for (int i = 0; i < 768; ++i) // Sums of which are too small for normal numbers.
      in.tensor().row(69)[i] *= 0x1p-124f;
    for (const std::string& name : backends()) {
      CAPTURE(name);
      check_company(name, host.matrix, in, counts);
    }
  }
}

TEST_CASE("blocks take what they take in their file, or little more") {
  Random random(25);
  for (const GgufFormat format : kept_formats()) {
    CAPTURE(std::string(to_string(format)));
    const BlockWeight host(format, 160, 1536, random);
    for (const std::string& name : backends()) {
      CAPTURE(name);
      const Rig rig(name, 1);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      // Codes of two and three bits are kept as four; a GPU repeats a block's scale four times.
      double most = format == GgufFormat::q2_k ? 2.0 : format == GgufFormat::q3_k ? 1.4 : 1.05;
      most *= is_cuda(name) ? 1.12 : 1;
      CHECK(double(weight->bytes()) < most * double(host.bytes.size()));
    }
  }
}

TEST_CASE("rows of an embedding of blocks are the numbers that they mean, bit for bit") {
  Random random(26);
  for (const GgufFormat format : kept_formats()) {
    const BlockWeight host(format, 50, 256, random);
    const std::vector<TokenId> tokens{0, 49, 50, -1, 17, 16, 15};
    for (const std::string& name : backends()) {
      CAPTURE(name);
      Matrix out(int(tokens.size()), 256);
      const Rig rig(name, 2);
      const auto table = rig.device->pack({&host.matrix, 1}).value();
      rig.run([&](Operations& ops) { ops.embed(out.tensor(), *table, tokens, 1); });
      for (int r = 0; r < out.rows; ++r)
        for (int i = 0; i < 256; ++i) {
          const TokenId token = tokens[std::size_t(r)];
          CHECK(out.at(r, i) == (token >= 0 && token < 50 ? host.f32.at(token, i) : 0.0f));
        }
    }
  }
}

TEST_CASE("matrices of unlike blocks become one weight, each part with its own product and bias") {
  Random random(27);
  const BlockWeight a(GgufFormat::q4_k, 20, 256, random);
  BlockWeight b(GgufFormat::q6_k, 13, 256, random);
  const BlockWeight c(GgufFormat::mxfp4, 40, 256, random);
  const std::vector<float> bias = random.floats(13);
  b.matrix.bias = bias.data();
  const HostMatrix parts[] = {a.matrix, a.matrix, b.matrix, c.matrix};
  for (const std::string& name : backends())
    for (const int rows : {1, 5, 20, 70}) {
      CAPTURE(name);
      const Rig rig(name, 2);
      const auto all = rig.device->pack(parts).value();
      CHECK(all->outputs() == 93);
      CHECK(all->inputs() == 256);
      Matrix in(rows, 256, random);
      const Matrix whole = product(rig, *all, in, true);
      std::size_t bytes = 0;
      int first = 0;
      for (const HostMatrix& one : parts) {
        const auto weight = rig.device->pack({&one, 1}).value();
        bytes += weight->bytes();
        const Matrix part = product(rig, *weight, in, true);
        for (int r = 0; r < rows; ++r)
          for (int o = 0; o < one.rows; ++o)
            CHECK(whole.at(r, first + o) == part.at(r, o));
        first += one.rows;
      }
      CHECK(all->bytes() <= bytes);
    }
}
