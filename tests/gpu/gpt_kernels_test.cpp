// What GPT-2 and its like need of every back end: layer norms, activations without gates, and rows
// of a table added to others.
#include "tests/gpu/company.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

struct Known {
  Activation activation;
  double (*function)(double);
};
constexpr Known activations[] = {
    {Activation::silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {Activation::gelu_tanh,
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
     }},
    {Activation::gelu, [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }},
    {Activation::relu, [](double x) { return std::max(x, 0.0); }},
    {Activation::relu_squared, [](double x) { return x > 0 ? x * x : 0; }}};

/// A result of this size and more has its last bits right, and a smaller one as many digits behind
/// the point.
constexpr double least = 0.01;
constexpr double tolerance = 3e-6;

void check_close(float result, double expected, double scale = 1) {
  CHECK(std::abs(result - expected) <= tolerance * std::max(std::abs(expected), least * scale));
}

} // namespace

TEST_CASE("layer norms centre rows and give them one variance, whatever ranks and rows") {
  Random random(21);
  for (const int cols : {384, 1024, 16, 5, 33, 9000})
    for (const std::string& name : backends()) {
      CAPTURE(name);
      CAPTURE(cols);
      Matrix in(9, cols, random, 2);
      for (float& value : in.values)
        value += 5; // What lies behind a row's end has another difference to the mean.
      const std::vector<float> weight = random.floats(std::size_t(cols));
      const std::vector<float> bias = random.floats(std::size_t(cols));
      const auto run = [&](int threads, int rows) {
        Matrix out = in.slice(0, rows);
        Rig(name, threads).run([&](Operations& ops) {
          ops.layer_norm(out.tensor(), out.tensor(), weight.data(), bias.data(), 1e-5f);
        });
        return out;
      };
      const Matrix out = run(2, 9);
      for (int r = 0; r < 9; ++r) {
        double mean = 0;
        double variance = 0;
        for (int i = 0; i < cols; ++i)
          mean += in.at(r, i) / double(cols);
        for (int i = 0; i < cols; ++i)
          variance += (in.at(r, i) - mean) * (in.at(r, i) - mean) / cols;
        for (int i = 0; i < cols; ++i)
          check_close(out.at(r, i),
                      (in.at(r, i) - mean) / std::sqrt(variance + 1e-5) * weight[std::size_t(i)] +
                          bias[std::size_t(i)],
                      std::max(400, cols / 5)); // A mean that is summed one by one is off by more.
      }
      CHECK(run(3, 1) == out.slice(0, 1));
    }
}

TEST_CASE("activations with and without gates are what they are defined as, and keep NaN") {
  Random random(22);
  for (const std::string& name : backends())
    for (const auto& [activation, function] : activations)
      for (const int cols : {1000, 16, 37}) {
        CAPTURE(name);
        CAPTURE(int(activation));
        Matrix in(3, 2 * cols, random, 6);
        in.values[3] = 200; // Far out in the tails.
        in.values[4] = -200;
        in.values[5] = NAN;
        Matrix gated(3, cols);
        Matrix plain(3, 2 * cols);
        Matrix one = in.slice(1, 1);
        const Rig rig(name, 2);
        rig.run([&](Operations& ops) {
          ops.gate(gated.tensor(), in.tensor(), Gating{activation});
          ops.activate(plain.tensor(), in.tensor(), activation);
          ops.activate(one.tensor(), one.tensor(), activation); // In place.
        });
        for (int r = 0; r < 3; ++r)
          for (int i = 0; i < 2 * cols; ++i) {
            const double expected = function(in.at(r, i));
            const bool is_nan = r == 0 && i == 5;
            CHECK(std::isnan(plain.at(r, i)) == is_nan);
            if (!is_nan)
              check_close(plain.at(r, i), expected);
            if (!is_nan && i < cols)
              check_close(gated.at(r, i), expected * in.at(r, cols + i));
          }
        CHECK(one == plain.slice(1, 1));
      }
}

TEST_CASE("rows of a table are added, and nothing for ids outside it") {
  Random random(23);
  const std::vector<std::int32_t> ids{0, 49, 50, -1, 17, 16, 15};
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16}) {
    const HostWeight host(format, 50, 37, random);
    const Matrix before(int(ids.size()), 37, random);
    for (const std::string& name : backends()) {
      CAPTURE(name);
      const Rig rig(name, 2);
      const auto table = rig.device->pack({&host.matrix, 1}).value();
      Matrix out = before;
      rig.run([&](Operations& ops) { ops.embed_add(out.tensor(), *table, ids); });
      for (int r = 0; r < out.rows; ++r)
        for (int i = 0; i < 37; ++i) {
          const std::int32_t id = ids[std::size_t(r)];
          CHECK(out.at(r, i) == before.at(r, i) + (id >= 0 && id < 50 ? host.f32.at(id, i) : 0));
        }
    }
  }
}

TEST_CASE("a product takes what a layer norm or an activation has just made") {
  Random random(24);
  for (const std::string& name : backends())
    for (const int cols : {48, 37}) {
      CAPTURE(name);
      const Rig rig(name, 2);
      const HostWeight host(WeightFormat::bf16, 20, cols, random);
      const auto weight = rig.device->pack({&host.matrix, 1}).value();
      const std::vector<float> norm = random.floats(std::size_t(cols));
      Matrix in(11, cols, random);
      Matrix rows(11, cols);
      Matrix out(11, 20);
      const auto check = [&](const std::function<void(Operations&)>& make) {
        rig.run([&](Operations& ops) {
          ops.linear(out.tensor(), rows.tensor(), *weight); // Of older rows.
          make(ops);
          ops.linear(out.tensor(), rows.tensor(), *weight);
        });
        CHECK(out == product(rig, *weight, rows));
      };
      check([&](Operations& ops) {
        ops.layer_norm(rows.tensor(), in.tensor(), norm.data(), norm.data(), 0.1f);
      });
      check([&](Operations& ops) { ops.activate(rows.tensor(), in.tensor(), Activation::gelu); });
      const std::vector<std::int32_t> ids(11, 1);
      check([&](Operations& ops) { ops.embed_add(rows.tensor(), *weight, ids); });
    }
}
