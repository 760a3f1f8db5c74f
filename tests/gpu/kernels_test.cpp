// Every kernel family against the scalar oracle, and against itself in other company.
#include "tests/gpu/company.hpp"
#include "tests/gpu/gguf_weight.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> all(mx_formats.begin(), mx_formats.end());
  for (const WeightFormat plain : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16})
    all.push_back(plain);
  return all;
}

struct Shape {
  int outputs;
  int inputs;
};
// The demo pair's, sizes that no tile divides, and inputs that AMX takes in two chunks.
constexpr Shape shapes[] = {{640, 384}, {384, 1024}, {256, 128}, {1, 1},
                            {17, 33},   {100, 50},   {79, 7},    {50, 1540}};

// Sums of absolute values: what rounding errors of a sum are measured by.
Matrix magnitudes(const Matrix& in, const Matrix& weight) {
  Matrix result(in.rows, weight.rows);
  for (int r = 0; r < in.rows; ++r)
    for (int o = 0; o < weight.rows; ++o) {
      double total = 1; // What linear_add adds to, and away from zero.
      for (int i = 0; i < in.cols; ++i)
        total += std::abs(double(in.at(r, i)) * double(weight.at(o, i)));
      result.values[std::size_t(r) * std::size_t(weight.rows) + std::size_t(o)] = float(total);
    }
  return result;
}

} // namespace

TEST_CASE("products agree with the oracle up to the order of summation") {
  constexpr double tolerance = 1e-6;      // Of the sum of absolute values.
  constexpr double tolerance_cuda = 4e-6; // Tensor cores cut where others round.
  const Rig oracle("scalar", 1);
  Random random(1);
  for (const WeightFormat format : all_formats())
    for (const Shape& shape : shapes) {
      const HostWeight host(format, shape.outputs, shape.inputs, random);
      const auto weight = oracle.device->pack({&host.matrix, 1}).value();
      Matrix in(35, shape.inputs, random);
      const Matrix scale = magnitudes(in, host.f32);
      const Matrix expected[] = {product(oracle, *weight, in), product(oracle, *weight, in, true)};
      for (const std::string& name : backends()) {
        CAPTURE(name);
        CAPTURE(std::string(to_string(format)));
        CAPTURE(shape.outputs);
        CAPTURE(shape.inputs);
        const Rig rig(name, 2);
        const auto own = rig.device->pack({&host.matrix, 1}).value();
        for (const bool add : {false, true})
          CHECK(worst(product(rig, *own, in, add), expected[add], scale) <
                (is_cuda(name) ? tolerance_cuda : tolerance));
      }
    }
}

TEST_CASE("a long sum of numbers of one sign is hardly lower than it should be") {
  constexpr int inputs = 8192;
  Random random(32);
  Matrix weight(32, inputs, random);
  Matrix in(2, inputs, random);
  std::vector<std::uint16_t> bits;
  for (float& value : weight.values) {
    bits.push_back(base::to_bf16(std::abs(value)).bits);
    value = base::to_float(base::bf16{bits.back()});
  }
  for (float& value : in.values)
    value = base::round_to_bf16(std::abs(value));
  const Matrix exact = magnitudes(in, weight); // And 1.
  const HostMatrix matrix{DType::bf16, bits.data(), weight.rows, inputs};
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    const auto packed = rig.device->pack({&matrix, 1}).value();
    Matrix sums = product(rig, *packed, in);
    for (float& sum : sums.values)
      sum += 1;
    CHECK(worst(sums, exact, exact) < 4e-6);
  }
}

TEST_CASE("the oracle's product is the rounded inputs' product, in any format") {
  const Rig oracle("scalar", 1);
  Random random(2);
  for (const WeightFormat format : all_formats()) {
    CAPTURE(std::string(to_string(format)));
    const HostWeight host(format, 33, 100, random);
    const auto weight = oracle.device->pack({&host.matrix, 1}).value();
    Matrix in(3, 100, random);
    const Matrix out = product(oracle, *weight, in);
    for (int r = 0; r < in.rows; ++r)
      for (int o = 0; o < 33; ++o) {
        double exact = 0;
        for (int i = 0; i < 100; ++i)
          exact += double(format >= WeightFormat::bf16 ? base::round_to_bf16(in.at(r, i))
                                                       : in.at(r, i)) *
                   double(host.f32.at(o, i));
        CHECK(out.at(r, o) == doctest::Approx(exact).epsilon(1e-5).scale(1));
      }
  }
}

TEST_CASE("a row's product has the same bits alone, in any batch and on any number of ranks") {
  std::vector<int> counts(20);
  std::iota(counts.begin(), counts.end(), 1);
  counts.insert(counts.end(), {45, 70});
  Random random(3);
  const auto check = [&](const std::string& name, WeightFormat format, const Shape& shape) {
    CAPTURE(name);
    CAPTURE(std::string(to_string(format)));
    const HostWeight host(format, shape.outputs, shape.inputs, random);
    check_company(name, host.matrix, Matrix(70, shape.inputs, random), counts);
  };
  for (const std::string& name : backends()) {
    for (const WeightFormat format : all_formats())
      check(name, format, {200, 96});
    if (is_cuda(name)) // Its products know no chunks.
      continue;
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp6})
      check(name, format, {34, 1540});
  }
}

TEST_CASE("a row's product has the same bits in every shape that a block of a GPU's has") {
  Random random(31);
  const auto check_plain = [&](const std::string& name, int outputs, int inputs,
                               const std::vector<int>& counts) {
    Matrix in(counts.back(), inputs, random);
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp4}) {
      CAPTURE(std::string(to_string(format)));
      check_company(name, HostWeight(format, outputs, inputs, random).matrix, in, counts);
    }
  };
  const auto check = [&](const std::string& name, int outputs, int inputs,
                         const std::vector<int>& counts) {
    check_plain(name, outputs, inputs, counts);
    Matrix in(counts.back(), inputs, random);
    for (const GgufFormat format : {GgufFormat::q4_0, GgufFormat::q5_k}) {
      CAPTURE(std::string(to_string(format)));
      check_company(name, BlockWeight(format, outputs, inputs, random).matrix, in, counts);
    }
  };
  for (const std::string& name : backends()) {
    if (!is_cuda(name))
      continue;
    check(name, 40, 2304, {1, 9, 33});   // Few outputs: a warp has one chain, or two.
    check(name, 4120, 256, {17, 33});    // Many: a block makes several tiles.
    check(name, 16400, 256, {9});        // So many that it does for few rows.
    check(name, 4040, 256, {130});       // Many rows, too: a block's warps share 128 of them,
    check_plain(name, 6200, 140, {130}); // also where the last span is no whole one,
    check_plain(name, 8100, 140, {70});  // or 64.
  }
}

TEST_CASE("a weight packed from parts is the parts one below the other") {
  Random random(4);
  for (const WeightFormat format : all_formats()) {
    const HostWeight a(format, 20, 40, random);
    const HostWeight b(format, 13, 40, random);
    Matrix in(2, 40, random);
    for (const std::string& name : backends()) {
      CAPTURE(name);
      const Rig rig(name, 2);
      const std::vector parts{a.matrix, b.matrix};
      const auto both = rig.device->pack(parts).value();
      const auto only_b = rig.device->pack({&b.matrix, 1}).value();
      const Matrix whole = product(rig, *both, in);
      const Matrix part = product(rig, *only_b, in);
      for (int r = 0; r < 2; ++r)
        for (int o = 0; o < 13; ++o)
          CHECK(whole.at(r, 20 + o) == part.at(r, o));
    }
  }
}

TEST_CASE("a bias is added to what its outputs give, once, on any number of ranks") {
  Random random(10);
  for (const std::string& name : backends())
    for (const WeightFormat format : all_formats()) {
      HostWeight a(format, 20, 40, random);
      const HostWeight b(format, 70, 40, random);
      const std::vector<float> bias = random.floats(20);
      const Rig rig(name, 3);
      const auto plain = rig.device->pack(std::vector{a.matrix, b.matrix}).value();
      a.matrix.bias = bias.data();
      const auto biased = rig.device->pack(std::vector{a.matrix, b.matrix}).value();
      Matrix in(21, 40, random);
      for (const bool add : {false, true}) {
        Matrix expected = product(rig, *plain, in, add);
        for (int r = 0; r < in.rows; ++r)
          for (int o = 0; o < 20; ++o)
            expected.tensor().row(r)[o] += bias[std::size_t(o)];
        CHECK(product(rig, *biased, in, add) == expected);
      }
    }
}

TEST_CASE("embedding reads rows of the packed table exactly, and unknown ids as zeros") {
  Random random(5);
  for (const WeightFormat format : all_formats()) {
    const HostWeight host(format, 50, 37, random);
    const std::vector<TokenId> tokens{0, 49, 50, -1, 17, 16, 15};
    Matrix out(int(tokens.size()), 37);
    for (const std::string& name : backends())
      for (const float scale : {1.0f, 3.7f}) {
        const Rig rig(name, 2);
        const auto table = rig.device->pack({&host.matrix, 1}).value();
        rig.run([&](Operations& ops) { ops.embed(out.tensor(), *table, tokens, scale); });
        for (int r = 0; r < out.rows; ++r) {
          const TokenId token = tokens[std::size_t(r)];
          for (int i = 0; i < 37; ++i)
            CHECK(out.at(r, i) ==
                  (token >= 0 && token < 50 ? scale * host.f32.at(token, i) : 0.0f));
        }
      }
  }
}

TEST_CASE("norms and activations agree with the oracle, whatever ranks and rows") {
  constexpr double tolerance = 2e-6; // Relative to the result's size, at least 0.01.
  const Gating clamped{Activation::clamped_silu, 1.702f, 2.5f};
  const Rig oracle("scalar", 1);
  Random random(6);
  for (const int cols : {384, 1024, 16, 5, 33}) {
    Matrix in(9, 2 * cols, random, 6);
    in.values[3] = 200; // Far out in the activation's tails.
    in.values[4] = -200;
    Matrix norm_in(9, cols, random, 3);
    const std::vector<float> weight = random.floats(std::size_t(cols));
    const auto run = [&](const Rig& rig, int rows) {
      Matrix all(6 * rows, cols);
      const auto part = [&](int i) { return all.tensor().slice(i * rows, rows); };
      const Tensor first = norm_in.tensor().slice(0, rows);
      for (int r = 0; r < rows; ++r) {
        std::copy_n(norm_in.tensor().row(r), cols, part(0).row(r));
        std::copy_n(in.tensor().row(r), cols, part(1).row(r));
        std::copy_n(in.tensor().row(r), cols, part(4).row(r));
      }
      rig.run([&](Operations& ops) {
        ops.rms_norm(part(0), part(0), weight.data(), 1e-5f); // In place.
        ops.rms_norm_add(part(1), first, weight.data(), 1e-5f, 0.75f);
        ops.gate(part(2), in.tensor().slice(0, rows), Gating{Activation::silu});
        ops.gate(part(3), in.tensor().slice(0, rows), Gating{Activation::gelu_tanh});
        ops.soft_cap(part(4), 30);
        ops.gate(part(5), in.tensor().slice(0, rows), clamped);
      });
      return all;
    };
    const Matrix expected = run(oracle, 9);
    for (int r = 0; r < 9; ++r)
      for (int i = 0; i < cols; ++i) {
        const double x = in.at(r, i);
        const double gelu =
            x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
        CHECK(expected.at(9 + r, i) ==
              doctest::Approx(0.75 * (x + expected.at(r, i))).epsilon(1e-5).scale(1));
        CHECK(expected.at(18 + r, i) ==
              doctest::Approx(x / (1 + std::exp(-x)) * in.at(r, cols + i)).epsilon(1e-5).scale(1));
        CHECK(expected.at(27 + r, i) ==
              doctest::Approx(gelu * in.at(r, cols + i)).epsilon(1e-5).scale(1));
        CHECK(expected.at(36 + r, i) ==
              doctest::Approx(30 * std::tanh(x / 30)).epsilon(1e-5).scale(1));
        const double least = std::min(x, 2.5);
        const double value = std::clamp(double(in.at(r, cols + i)), -2.5, 2.5) + 1;
        CHECK(
            expected.at(45 + r, i) ==
            doctest::Approx(least / (1 + std::exp(-1.702 * least)) * value).epsilon(1e-5).scale(1));
      }
    Matrix scale = expected;
    for (std::size_t i = 0; i < scale.values.size(); ++i) { // The second's terms may cancel.
      const float least = i / std::size_t(9 * cols) == 1 ? 6.0f : 0.01f;
      scale.values[i] = std::max(std::abs(scale.values[i]), least);
    }
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(cols);
      const Matrix all = run(Rig(name, 2), 9);
      CHECK(worst(all, expected, scale) < tolerance);
      const Matrix one = run(Rig(name, 3), 1);
      for (int i = 0; i < 6; ++i)
        CHECK(one.slice(i, 1) == all.slice(9 * i, 1));
    }
  }
}

TEST_CASE("NaN in a gate or in what it gates comes out, whatever the activation") {
  for (const std::string& name : backends())
    for (const Gating& gating : {Gating{Activation::silu}, Gating{Activation::gelu_tanh},
                                 Gating{Activation::clamped_silu, 1.702f, 7}}) {
      CAPTURE(name);
      Matrix in(1, 40);
      std::fill(in.values.begin(), in.values.end(), 2.0f);
      in.values[3] = in.values[20 + 17] = NAN;
      Matrix out(1, 20);
      Rig(name, 1).run([&](Operations& ops) { ops.gate(out.tensor(), in.tensor(), gating); });
      for (int i = 0; i < 20; ++i)
        CHECK(std::isnan(out.at(0, i)) == (i == 3 || i == 17));
    }
}

TEST_CASE("a product takes the rows that another operation has just made, and no older ones") {
  Random random(11);
  for (const std::string& name : backends())
    for (const int cols : {48, 37}) {
      CAPTURE(name);
      CAPTURE(cols);
      const Rig rig(name, 2);
      const HostWeight host(DType::bf16, 20, cols, random);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      const std::vector<float> norm = random.floats(std::size_t(cols));
      Matrix in(11, 2 * cols, random);
      Matrix rows(11, cols);
      Matrix out(11, 20);
      const HostWeight wider(DType::bf16, 20, 64, random);
      const auto other = rig.device->pack({&wider.matrix, 1}).value();
      Matrix nothing(11, 64);
      std::fill(nothing.values.begin(), nothing.values.end(), NAN);
      const auto check = [&](const std::function<void(Operations&)>& make) {
        rig.run([&](Operations& ops) {
          ops.linear(out.tensor(), rows.tensor(), *weight);   // Of older rows.
          ops.linear(out.tensor(), nothing.tensor(), *other); // What it leaves shows nowhere.
          make(ops);
          ops.linear(out.tensor(), rows.tensor(), *weight);
        });
        CHECK(out == product(rig, *weight, rows));
      };
      const Tensor half{in.values.data(), 11, cols, 2 * cols};
      check([&](Operations& ops) { ops.rms_norm(rows.tensor(), half, norm.data(), 0.1f); });
      check([&](Operations& ops) { ops.rms_norm_add(rows.tensor(), half, norm.data(), 0.1f, 1); });
      check(
          [&](Operations& ops) { ops.gate(rows.tensor(), in.tensor(), Gating{Activation::silu}); });
      check([&](Operations& ops) { ops.soft_cap(rows.tensor(), 0.5f); });
      const std::vector<std::int32_t> order{1, 0, 2, 3, 4, 5, 10, 9, 8, 7, 6};
      check([&](Operations& ops) { ops.gather(rows.tensor(), half, order); });
    }
}

TEST_CASE("gather copies rows in the order asked for") {
  Random random(7);
  Matrix in(6, 10, random);
  const std::vector<std::int32_t> rows{5, 0, 0, 3};
  for (const std::string& name : backends()) {
    Matrix out(4, 10);
    Rig(name, 2).run([&](Operations& ops) { ops.gather(out.tensor(), in.tensor(), rows); });
    for (int r = 0; r < 4; ++r)
      CHECK(out.slice(r, 1) == in.slice(rows[std::size_t(r)], 1));
  }
}

TEST_CASE("columns are gathered in the order asked for, and minus infinity where there is none") {
  Random random(7);
  Matrix in(3, 10, random);
  const std::vector<float> columns{5, 0, -1, 9, 9, 3, -1};
  for (const std::string& name : backends()) {
    const Rig rig(name, 2);
    const auto uploaded = rig.device->upload(columns).value();
    Matrix out(3, int(columns.size()));
    rig.run([&](Operations& ops) {
      ops.gather_columns(out.tensor(), in.tensor(),
                         reinterpret_cast<const float*>(uploaded->data()));
    });
    for (int r = 0; r < 3; ++r)
      for (int i = 0; i < out.cols; ++i)
        CHECK(out.at(r, i) == (columns[std::size_t(i)] < 0
                                   ? -std::numeric_limits<float>::infinity()
                                   : in.at(r, int(columns[std::size_t(i)]))));
  }
}

TEST_CASE("NaN comes out of a product and a norm where it went in, and nowhere else") {
  Random random(8);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    for (const WeightFormat format : all_formats()) {
      const HostWeight host(format, 40, 64, random);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      Matrix in(5, 64, random);
      in.values[2 * 64 + 9] = std::numeric_limits<float>::quiet_NaN();
      Matrix out = product(rig, *weight, in);
      const std::vector<float> ones(40, 1.0f);
      rig.run([&](Operations& ops) {
        ops.rms_norm(out.tensor(), out.tensor(), ones.data(), 1e-5f);
        ops.soft_cap(out.tensor(), 5);
      });
      for (int r = 0; r < 5; ++r)
        for (int o = 0; o < 40; ++o)
          CHECK(std::isnan(out.at(r, o)) == (r == 2));
    }
  }
}

// Recorded, since no machine has all of these families: another order of sums is another number.
TEST_CASE("portable kernels have the same bits on every machine with fused multiply-add") {
  Random random(9);
  const HostWeight host(DType::bf16, 100, 70, random);
  Matrix in(3, 70, random);
  for (const std::string& name : fused_kernel_names()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    const auto weight = rig.device->pack({&host.matrix, 1}).value();
    Matrix out = product(rig, *weight, in);
    CHECK(fingerprint(out) == 0x6C59A1094DB04F50u);
    Matrix silu(3, 50), gelu(3, 50);
    rig.run([&](Operations& ops) {
      ops.gate(silu.tensor(), out.tensor(), Gating{Activation::silu});
      ops.gate(gelu.tensor(), out.tensor(), Gating{Activation::gelu_tanh});
    });
    CHECK(fingerprint(silu) == 0x43D3AD196D531076u);
    CHECK(fingerprint(gelu) == 0x421470261A81B30Fu);
    if (name == "highway-avx3")
      continue; // What follows was not compared there yet.
    const std::vector<float> ones(100, 1.0f);
    rig.run([&](Operations& ops) { ops.rms_norm(out.tensor(), out.tensor(), ones.data(), 1e-5f); });
    CHECK(fingerprint(out) == 0x7AD5AE13CBE5F00Au);
    rig.run([&](Operations& ops) { ops.soft_cap(out.tensor(), 5); });
    CHECK(fingerprint(out) == 0xD154184AD4AB8BA5u);
  }
}
