// Recurrent layers on every back end: what a row gives, and that rows which are taken back leave
// nothing behind.
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <random>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr int tentative = 8;

/// The rule's constants, and rows of a sequence.
struct Layer {
  explicit Layer(Random& random, int value_dim = 24, bool apart = false, int rows = 20)
      : kernel(4, channels(value_dim), random), speeds(1, 4), offsets(1, 4, random),
        in(rows, channels(value_dim), random), rates(rows, 8, random) {
    for (int head = 0; head < 4; ++head)
      speeds.values[std::size_t(head)] = -0.1f - 0.3f * float(head);
    rule = {2,
            4,
            16,
            value_dim,
            4,
            apart,
            kernel.values.data(),
            speeds.values.data(),
            offsets.values.data()};
  }
  Layer(const Layer&) = delete;
  static int channels(int value_dim) { return 2 * 2 * 16 + 4 * value_dim; }

  Matrix kernel;
  Matrix speeds;
  Matrix offsets;
  Matrix in;
  Matrix rates;
  DeltaRule rule;
};

/// States on a back end, and passes over them.
class States {
public:
  States(const Rig& rig, const DeltaRule& rule)
      : rig_(rig), rule_(rule), layout_(rule, 2, tentative) {
    KvShape shape{2, 8};
    shape.state_bytes = layout_.bytes();
    pool_ = KvPool::create(*rig.device, shape, 1, 3).value();
  }

  /// Runs the rows of `run`, which are those of `in` and `rates` from its position on.
  Matrix give(const StateRun& run, Matrix& in, Matrix& rates) const {
    Matrix out(run.rows, rule_.values());
    Matrix own = in.slice(run.position, run.rows);
    Matrix own_rates = rates.slice(run.position, run.rows);
    rig_.run([&](Operations& ops) {
      ops.delta_rule(out.tensor(), own.tensor(), own_rates.tensor(), rule_, {&run, 1},
                     {pool_.get(), layout_, 1});
    });
    return out;
  }
  /// Runs several sequences, which have the same rows from position 0 on, in one pass.
  Matrix together(std::vector<StateRun> runs, Matrix& in, Matrix& rates) const {
    Matrix out(in.rows, rule_.values());
    rig_.run([&](Operations& ops) {
      ops.delta_rule(out.tensor(), in.tensor(), rates.tensor(), rule_, runs,
                     {pool_.get(), layout_, 1});
    });
    return out;
  }

private:
  const Rig& rig_;
  const DeltaRule& rule_;
  StateLayout layout_;
  std::shared_ptr<KvPool> pool_;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

/// What all rows give from position 0 on, in double precision.
std::vector<std::vector<double>> oracle(const Layer& layer) {
  const DeltaRule& rule = layer.rule;
  std::vector<std::vector<double>> out;
  std::vector<double> state(std::size_t(rule.value_heads * rule.key_dim * rule.value_dim));
  for (int p = 0; p < layer.in.rows; ++p) {
    const auto channel = [&](int c) {
      double sum = 0;
      for (int tap = 0; tap < 4; ++tap)
        if (p - 3 + tap >= 0)
          sum += double(layer.kernel.at(tap, c)) * layer.in.at(p - 3 + tap, c);
      return silu(sum);
    };
    const auto vector = [&](int first) {
      std::vector<double> x;
      double squares = 1e-6;
      for (int i = 0; i < rule.key_dim; ++i) {
        x.push_back(channel(first + i));
        squares += x.back() * x.back();
      }
      for (double& each : x)
        each /= std::sqrt(squares);
      return x;
    };
    out.emplace_back();
    for (int h = 0; h < rule.value_heads; ++h) {
      const int key_head = rule.apart ? h % 2 : h / 2;
      const auto query = vector(key_head * rule.key_dim);
      const auto key = vector(rule.keys() + key_head * rule.key_dim);
      const double speed = layer.speeds.at(0, h);
      const double rate = layer.rates.at(p, 4 + h) + layer.offsets.at(0, h);
      const double decay = std::exp(speed * std::log1p(std::exp(rate)));
      const double strength = 1 / (1 + std::exp(-layer.rates.at(p, h)));
      double* s = state.data() + h * rule.key_dim * rule.value_dim;
      for (int j = 0; j < rule.value_dim; ++j) {
        double known = 0;
        for (int i = 0; i < rule.key_dim; ++i)
          known += decay * s[i * rule.value_dim + j] * key[std::size_t(i)];
        const double change =
            strength * (channel(2 * rule.keys() + h * rule.value_dim + j) - known);
        double given = 0;
        for (int i = 0; i < rule.key_dim; ++i) {
          double& at = s[i * rule.value_dim + j];
          at = decay * at + key[std::size_t(i)] * change;
          given += at * query[std::size_t(i)] / std::sqrt(double(rule.key_dim));
        }
        out.back().push_back(given);
      }
    }
  }
  return out;
}

} // namespace

TEST_CASE("rows give what the gated delta rule says") {
  for (const std::string& name : backends())
    for (const auto& [value_dim, apart] : {std::pair(16, false), {24, true}, {80, false}}) {
      CAPTURE(name);
      CAPTURE(value_dim);
      Random random(5);
      Layer layer(random, value_dim, apart);
      const auto expected = oracle(layer);
      const Rig rig(name, 3);
      const States states(rig, layer.rule);
      const Matrix out = states.give({2, 0, 20, 0, 0, 20}, layer.in, layer.rates);
      for (int r = 0; r < out.rows; ++r)
        for (int c = 0; c < out.cols; ++c)
          CHECK(
              double(out.at(r, c)) ==
              doctest::Approx(expected[std::size_t(r)][std::size_t(c)]).epsilon(2e-4).scale(0.05));
    }
}

TEST_CASE("however rows come, and whatever was taken back before, they give the same bits") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    Random random(6);
    Layer layer(random);
    const Rig rig(name, 2);
    const States states(rig, layer.rule);
    const Matrix whole = states.give({0, 0, 20, 0, 0, 20}, layer.in, layer.rates);
    std::mt19937 draw(3);
    for (int round = 0; round < 40; ++round) {
      int held = 0;
      int next = 0; // Position of the first row that is to be fed.
      while (next < layer.in.rows) {
        const int left = layer.in.rows - next;
        const int certain_rows = 1 + int(draw() % unsigned(std::min(left, 5)));
        const int window = int(draw() % unsigned(std::min(left - certain_rows, tentative) + 1));
        const int right = int(draw() % unsigned(window + 1)); // Of the window; the others are not.
        const bool lags = draw() % 4 == 0; // The state may come later than its rows are certain.
        const int certain = lags ? std::max(held, next - int(draw() % 2)) : next + certain_rows;
        Matrix in = layer.in;
        Matrix rates = layer.rates;
        for (int r = next + certain_rows + right; r < in.rows; ++r)
          for (int c = 0; c < in.cols; ++c)
            in.values[std::size_t(r * in.cols + c)] = 9;
        const int rows = certain_rows + window;
        if (next + rows - certain > tentative)
          continue;
        const Matrix out = states.give({1, 0, rows, next, held, certain}, in, rates);
        REQUIRE(out.slice(0, certain_rows + right) == whole.slice(next, certain_rows + right));
        held = certain;
        next += certain_rows + right;
        if (held == next && draw() % 2 == 0) // What the last row gave is read again.
          --next;
      }
    }
  }
}

TEST_CASE("a state that begins as another's snapshot goes on with the same bits") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    Random random(9);
    Layer layer(random, 24, true);
    const Rig rig(name, 2);
    const States states(rig, layer.rule);
    const Matrix whole = states.give({0, 0, 20, 0, 0, 20}, layer.in, layer.rates);
    for (int at = 1; at <= 10; ++at)
      for (const int behind :
           {0, 1, 2, 6}) { // Rows that the pass has beyond, half of them certain.
        CAPTURE(at);
        CAPTURE(behind);
        const int certain = at + behind / 2;
        states.give({0, 0, at + behind, 0, 0, certain, -1, 1, at}, layer.in, layer.rates);
        for (const int window : {0, 5}) { // The copy goes on; then again, behind its window.
          const int rows = 2 + window;
          const Matrix out =
              states.give({2, 0, rows, at, at, at + 2, 1, -1, 0}, layer.in, layer.rates);
          CHECK(out == whole.slice(at, rows));
          CHECK(states.give({2, 0, 3, at + 2, at + 2, at + 5}, layer.in, layer.rates) ==
                whole.slice(at + 2, 3));
        }
        CHECK(states.give({0, 0, 3, certain, certain, certain + 3}, layer.in, layer.rates) ==
              whole.slice(certain, 3));
      }
  }
}

TEST_CASE("sequences of one pass do not see one another") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    Random random(7);
    Layer layer(random);
    const Rig rig(name, 3);
    const States states(rig, layer.rule);
    const Matrix out =
        states.together({{0, 0, 12, 0, 0, 12}, {2, 12, 8, 0, 0, 3}}, layer.in, layer.rates);
    CHECK(out.slice(0, 12) == states.give({1, 0, 12, 0, 0, 12}, layer.in, layer.rates));
    Matrix in = layer.in.slice(12, 8);
    Matrix rates = layer.rates.slice(12, 8);
    CHECK(out.slice(12, 8) == states.give({1, 0, 8, 0, 0, 8}, in, rates));
  }
}

TEST_CASE("heads are normalised and gated") {
  Random random(8);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    Matrix x(3, 60, random);
    Matrix gates(3, 60, random, 3);
    Matrix weight(1, 20, random);
    Matrix out = x;
    rig.run([&](Operations& ops) {
      ops.gated_rms_norm(out.tensor(), gates.tensor(), weight.values.data(), 20, 1e-5f);
    });
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 60; ++c) {
        double squares = 0;
        for (int i = c / 20 * 20; i < c / 20 * 20 + 20; ++i)
          squares += double(x.at(r, i)) * x.at(r, i);
        CHECK(out.at(r, c) == doctest::Approx(x.at(r, c) / std::sqrt(squares / 20 + 1e-5) *
                                              weight.at(0, c % 20) * silu(gates.at(r, c))));
      }
  }
}
