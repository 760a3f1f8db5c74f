// Recurrent layers on every back end: what a row gives, and that rows which are taken back leave
// nothing behind.
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <functional>
#include <random>
#include <span>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

constexpr int tentative = 8;

/// A mixer with its constants, and the rows of a sequence.
struct Layer {
  explicit Layer(Matrix rows) : in(std::move(rows)) {}
  Layer(const Layer&) = delete;
  virtual ~Layer() = default;

  virtual StateLayout layout() const = 0;
  virtual int width() const = 0; ///< Of what a row gives.
  virtual void run(Operations& ops, Tensor out, Tensor in, std::span<const StateRun> runs,
                   const StateLayer& states) const = 0;
  /// Returns what all rows give from position 0 on, in double precision.
  virtual std::vector<std::vector<double>> oracle() const = 0;

  Matrix in;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

/// Returns what a convolution of the last `taps` rows gives. x(row)
template <class X>
double convolved(const Matrix& kernel, const Matrix& bias, int position, int channel, const X& x) {
  double sum = bias.at(0, channel);
  for (int tap = 0; tap < kernel.rows; ++tap)
    if (const int from = position - kernel.rows + 1 + tap; from >= 0)
      sum += double(kernel.at(tap, channel)) * x(from);
  return sum;
}

struct RecurrentLayer final : Layer {
  RecurrentLayer(Random& random, StateUpdate update, int value_dim = 24, bool apart = false,
                 int rows = 20)
      : Layer(Matrix(rows, channels(value_dim) + (update == StateUpdate::delta ? 8 : 4), random)),
        kernel(4, channels(value_dim), random), bias(1, channels(value_dim)), speeds(1, 4),
        offsets(1, 4, random), skips(1, 4, random) {
    for (int head = 0; head < 4; ++head)
      speeds.values[std::size_t(head)] = -0.1f - 0.3f * float(head);
    rule.update = update;
    rule.key_heads = 2;
    rule.value_heads = 4;
    rule.key_dim = 16;
    rule.value_dim = value_dim;
    rule.taps = 4;
    rule.apart = apart;
    rule.kernel = kernel.values.data();
    rule.speeds = speeds.values.data();
    rule.offsets = offsets.values.data();
    if (update == StateUpdate::delta)
      return;
    bias = Matrix(1, channels(value_dim), random);
    rule.bias = bias.values.data();
    rule.skips = skips.values.data();
    rule.time_least = 0.3f;
    rule.time_most = 1.2f;
  }
  static int channels(int value_dim) { return 2 * 2 * 16 + 4 * value_dim; }

  StateLayout layout() const override { return {rule, 2, tentative}; }
  int width() const override { return rule.values(); }
  void run(Operations& ops, Tensor out, Tensor rows, std::span<const StateRun> runs,
           const StateLayer& states) const override {
    ops.recurrence(out, rows.columns(0, rule.channels()),
                   rows.columns(rule.channels(), rule.rates()), rule, runs, states);
  }

  std::vector<double> vector(int position, int first) const {
    std::vector<double> x;
    double squares = 1e-6;
    for (int i = 0; i < rule.key_dim; ++i) {
      x.push_back(channel(position, first + i));
      squares += x.back() * x.back();
    }
    for (double& each : x)
      each /= rule.update == StateUpdate::delta ? std::sqrt(squares) : 1;
    return x;
  }
  double channel(int position, int c) const {
    return silu(convolved(kernel, bias, position, c, [&](int row) { return in.at(row, c); }));
  }

  std::vector<std::vector<double>> oracle() const override {
    const bool delta = rule.update == StateUpdate::delta;
    std::vector<std::vector<double>> out;
    std::vector<double> state(std::size_t(rule.value_heads * rule.key_dim * rule.value_dim));
    for (int p = 0; p < in.rows; ++p) {
      out.emplace_back();
      for (int h = 0; h < rule.value_heads; ++h) {
        const int key_head = rule.apart ? h % 2 : h / 2;
        const auto query = vector(p, key_head * rule.key_dim);
        const auto key = vector(p, rule.keys() + key_head * rule.key_dim);
        const double rate = in.at(p, rule.channels() + rule.first_time() + h) + offsets.at(0, h);
        const double time =
            std::clamp(std::log1p(std::exp(rate)), double(rule.time_least), double(rule.time_most));
        const double decay = std::exp(speeds.at(0, h) * time);
        const double strength = delta ? 1 / (1 + std::exp(-in.at(p, rule.channels() + h))) : time;
        double* s = state.data() + h * rule.key_dim * rule.value_dim;
        for (int j = 0; j < rule.value_dim; ++j) {
          const double value = channel(p, 2 * rule.keys() + h * rule.value_dim + j);
          double known = 0;
          for (int i = 0; delta && i < rule.key_dim; ++i)
            known += decay * s[i * rule.value_dim + j] * key[std::size_t(i)];
          double given = delta ? 0 : skips.at(0, h) * value;
          for (int i = 0; i < rule.key_dim; ++i) {
            double& at = s[i * rule.value_dim + j];
            at = decay * at + key[std::size_t(i)] * strength * (value - known);
            given += at * query[std::size_t(i)] / (delta ? std::sqrt(double(rule.key_dim)) : 1);
          }
          out.back().push_back(given);
        }
      }
    }
    return out;
  }

  Matrix kernel;
  Matrix bias;
  Matrix speeds;
  Matrix offsets;
  Matrix skips;
  Recurrence rule;
};

struct ConvolutionLayer final : Layer {
  explicit ConvolutionLayer(Random& random, int channels = 70, bool biases = true, int taps = 3)
      : Layer(Matrix(20, 3 * channels, random)), kernel(taps, channels, random), bias(1, channels) {
    convolution.channels = channels;
    convolution.taps = taps;
    convolution.kernel = kernel.values.data();
    if (!biases)
      return;
    bias = Matrix(1, channels, random);
    convolution.bias = bias.values.data();
  }

  StateLayout layout() const override { return {convolution, 2, tentative}; }
  int width() const override { return convolution.channels; }
  void run(Operations& ops, Tensor out, Tensor rows, std::span<const StateRun> runs,
           const StateLayer& states) const override {
    ops.short_convolution(out, rows, convolution, runs, states);
  }
  std::vector<std::vector<double>> oracle() const override {
    const int n = convolution.channels;
    std::vector<std::vector<double>> out;
    for (int p = 0; p < in.rows; ++p) {
      out.emplace_back();
      for (int c = 0; c < n; ++c)
        out.back().push_back(in.at(p, n + c) * convolved(kernel, bias, p, c, [&](int row) {
                               return double(in.at(row, c)) * in.at(row, 2 * n + c);
                             }));
    }
    return out;
  }

  Matrix kernel;
  Matrix bias;
  ShortConvolution convolution;
};

/// Calls test(layer) with one layer of each kind.
void with_each(unsigned seed, const std::function<void(Layer&)>& test) {
  Random random(seed);
  RecurrentLayer delta(random, StateUpdate::delta, 24, true);
  RecurrentLayer sum(random, StateUpdate::sum);
  ConvolutionLayer convolution(random);
  for (Layer* layer : {static_cast<Layer*>(&delta), static_cast<Layer*>(&sum),
                       static_cast<Layer*>(&convolution)}) {
    CAPTURE(layer->width());
    test(*layer);
  }
}

/// States on a back end, and passes over them.
class States {
public:
  States(const Rig& rig, const Layer& layer) : rig_(rig), layer_(layer), layout_(layer.layout()) {
    KvShape shape{2, 8};
    shape.state_bytes = layout_.bytes();
    pool_ = KvPool::create(*rig.device, shape, 1, 3).value();
  }

  /// Runs the rows of `run`, which are those of `in` from its position on.
  Matrix give(const StateRun& run, const Matrix& in) const {
    return together({run}, in.slice(run.position, run.rows));
  }
  /// Runs several sequences, which have these rows, in one pass.
  Matrix together(const std::vector<StateRun>& runs, Matrix in) const {
    Matrix out(in.rows, layer_.width());
    rig_.run([&](Operations& ops) {
      layer_.run(ops, out.tensor(), in.tensor(), runs, {pool_.get(), layout_, 1});
    });
    return out;
  }

private:
  const Rig& rig_;
  const Layer& layer_;
  StateLayout layout_;
  std::shared_ptr<KvPool> pool_;
};

void check_oracle(const std::string& backend, const Layer& layer) {
  const auto expected = layer.oracle();
  const Rig rig(backend, 3);
  const States states(rig, layer);
  const Matrix out = states.give({2, 0, 20, 0, 0, 20}, layer.in);
  for (int r = 0; r < out.rows; ++r)
    for (int c = 0; c < out.cols; ++c)
      CHECK(double(out.at(r, c)) ==
            doctest::Approx(expected[std::size_t(r)][std::size_t(c)]).epsilon(2e-4).scale(0.05));
}

} // namespace

TEST_CASE("rows give what the gated delta rule says, and what Mamba-2 does") {
  for (const std::string& name : backends())
    for (const StateUpdate update : {StateUpdate::delta, StateUpdate::sum})
      for (const auto& [value_dim, apart] : {std::pair(16, false), {24, true}, {80, false}}) {
        CAPTURE(name);
        CAPTURE(value_dim);
        Random random(5);
        check_oracle(name, RecurrentLayer(random, update, value_dim, apart));
      }
}

TEST_CASE("rows give what a short convolution between gates says") {
  for (const std::string& name : backends())
    for (const auto& [channels, biases, taps] :
         {std::tuple(16, false, 3), {70, true, 3}, {300, true, 4}, {5, false, 1}}) {
      CAPTURE(name);
      CAPTURE(channels);
      Random random(4);
      check_oracle(name, ConvolutionLayer(random, channels, biases, taps));
    }
}

TEST_CASE("many value heads of one key head give the same on any number of threads") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    Random random(3);
    const int rows = 20;
    Recurrence rule;
    rule.update = StateUpdate::sum;
    rule.key_heads = 1;
    rule.value_heads = 22;
    rule.key_dim = rule.value_dim = 16;
    rule.taps = 4;
    Matrix speeds(1, rule.value_heads);
    std::fill(speeds.values.begin(), speeds.values.end(), -0.2f);
    Matrix offsets(1, rule.value_heads, random);
    Matrix skips(1, rule.value_heads, random);
    Matrix kernel(rule.taps, rule.channels(), random);
    rule.kernel = kernel.values.data();
    rule.speeds = speeds.values.data();
    rule.offsets = offsets.values.data();
    rule.skips = skips.values.data();
    Matrix in(rows, rule.channels(), random);
    Matrix rates(rows, rule.rates(), random);
    const auto outputs = [&](int threads, int first) {
      const Rig rig(name, threads);
      const StateLayout layout(rule, 1, tentative);
      KvShape shape{2, 8};
      shape.state_bytes = layout.bytes();
      const auto pool = KvPool::create(*rig.device, shape, 1, 1).value();
      Matrix out(rows, rule.values());
      for (const StateRun run :
           {StateRun{0, 0, first, 0, 0, first}, StateRun{0, 0, rows - first, first, first, rows}}) {
        Matrix own = in.slice(run.position, run.rows);
        Matrix own_rates = rates.slice(run.position, run.rows);
        Matrix given(run.rows, rule.values());
        rig.run([&](Operations& ops) {
          ops.recurrence(given.tensor(), own.tensor(), own_rates.tensor(), rule, {&run, 1},
                         {pool.get(), layout, 0});
        });
        std::copy(given.values.begin(), given.values.end(),
                  out.values.begin() + std::ptrdiff_t(run.position) * out.cols);
      }
      return out;
    };
    const Matrix expected = outputs(1, 7);
    CHECK(outputs(3, 11) == expected);
    CHECK(outputs(4, 1) == expected);
  }
}

TEST_CASE("however rows come, and whatever was taken back before, they give the same bits") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    with_each(6, [&](Layer& layer) {
      const States states(rig, layer);
      const Matrix whole = states.give({0, 0, 20, 0, 0, 20}, layer.in);
      std::mt19937 draw(3);
      for (int round = 0; round < 40; ++round) {
        int held = 0;
        int next = 0; // Position of the first row that is to be fed.
        while (next < layer.in.rows) {
          const int left = layer.in.rows - next;
          const int certain_rows = 1 + int(draw() % unsigned(std::min(left, 5)));
          const int window = int(draw() % unsigned(std::min(left - certain_rows, tentative) + 1));
          const int right =
              int(draw() % unsigned(window + 1)); // Of the window; the others are not.
          const bool lags = draw() % 4 == 0; // The state may come later than its rows are certain.
          const int certain = lags ? std::max(held, next - int(draw() % 2)) : next + certain_rows;
          Matrix in = layer.in;
          for (int r = next + certain_rows + right; r < in.rows; ++r)
            for (int c = 0; c < in.cols; ++c)
              in.values[std::size_t(r * in.cols + c)] = 9;
          const int rows = certain_rows + window;
          if (next + rows - certain > tentative)
            continue;
          const Matrix out = states.give({1, 0, rows, next, held, certain}, in);
          REQUIRE(out.slice(0, certain_rows + right) == whole.slice(next, certain_rows + right));
          held = certain;
          next += certain_rows + right;
          if (held == next && draw() % 2 == 0) // What the last row gave is read again.
            --next;
        }
      }
    });
  }
}

TEST_CASE("a state that begins as another's snapshot goes on with the same bits") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    with_each(9, [&](Layer& layer) {
      const States states(rig, layer);
      const Matrix whole = states.give({0, 0, 20, 0, 0, 20}, layer.in);
      for (int at = 1; at <= 10; ++at)
        for (const int behind :
             {0, 1, 2, 6}) { // Rows that the pass has beyond, half of them certain.
          CAPTURE(at);
          CAPTURE(behind);
          const int certain = at + behind / 2;
          states.give({0, 0, at + behind, 0, 0, certain, -1, 1, at}, layer.in);
          for (const int window : {0, 5}) { // The copy goes on; then again, behind its window.
            const int rows = 2 + window;
            const Matrix out = states.give({2, 0, rows, at, at, at + 2, 1, -1, 0}, layer.in);
            CHECK(out == whole.slice(at, rows));
            CHECK(states.give({2, 0, 3, at + 2, at + 2, at + 5}, layer.in) ==
                  whole.slice(at + 2, 3));
          }
          CHECK(states.give({0, 0, 3, certain, certain, certain + 3}, layer.in) ==
                whole.slice(certain, 3));
        }
    });
  }
}

TEST_CASE("sequences of one pass do not see one another") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 3);
    with_each(7, [&](Layer& layer) {
      const States states(rig, layer);
      const Matrix out = states.together({{0, 0, 12, 0, 0, 12}, {2, 12, 8, 0, 0, 3}}, layer.in);
      CHECK(out.slice(0, 12) == states.give({1, 0, 12, 0, 0, 12}, layer.in));
      CHECK(out.slice(12, 8) == states.give({1, 0, 8, 0, 0, 8}, layer.in.slice(12, 8)));
    });
  }
}

TEST_CASE("what a recurrence gives is normalised part by part, and gated behind that or before") {
  Random random(8);
  for (const std::string& name : backends())
    for (const bool first : {false, true}) {
      CAPTURE(name);
      CAPTURE(first);
      const Rig rig(name, 2);
      Matrix x(3, 60, random);
      Matrix gates(3, 60, random, 3);
      Matrix weight(1, first ? 60 : 20, random);
      Matrix out = x;
      rig.run([&](Operations& ops) {
        ops.gated_rms_norm(out.tensor(), gates.tensor(), {weight.values.data(), 20, 1e-5f, first});
      });
      for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 60; ++c) {
          const auto gated = [&](int i) {
            return double(x.at(r, i)) * (first ? silu(gates.at(r, i)) : 1);
          };
          double squares = 0;
          for (int i = c / 20 * 20; i < c / 20 * 20 + 20; ++i)
            squares += gated(i) * gated(i);
          CHECK(out.at(r, c) == doctest::Approx(gated(c) / std::sqrt(squares / 20 + 1e-5) *
                                                weight.at(0, c % weight.cols) *
                                                (first ? 1 : silu(gates.at(r, c)))));
        }
    }
}
