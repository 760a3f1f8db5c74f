// Mixtures of experts on every back end: routers, products by experts, and their sums.
#include "tests/gpu/rig.hpp"

#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

using namespace paceline;
using namespace paceline::gpu;
using namespace paceline::gpu::testing;

namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// A routing with memory of its own.
struct Routed {
  Routed(int rows, int experts, int top_k) : memory(Routing::bytes(rows, experts, top_k)) {
    routing = Routing::in(memory.data(), rows, experts, top_k);
  }

  int expert(int row, int k) const { return routing.chosen[row * routing.top_k + k]; }
  float weight(int row, int k) const { return routing.weights[row * routing.top_k + k]; }

  std::vector<std::byte> memory;
  Routing routing;
};

Routed route(const Rig& rig, Matrix scores, int top_k, const RouterOptions& options = {},
             const float* bias = nullptr) {
  Routed out(scores.rows, scores.cols, top_k);
  rig.run([&](Operations& ops) { ops.route(out.routing, scores.tensor(), bias, options); });
  return out;
}

/// Returns the numbers 0 ... count - 1, those with the highest scores first; among equal ones in
/// their order.
std::vector<int> by_score(int count, const auto& score) {
  std::vector<int> order(std::size_t(count), 0);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return score(a) > score(b); });
  return order;
}

/// Returns the experts that a router of sigmoids chooses for a row, in the order of their scores.
std::vector<int> chosen_by_sigmoid(const Matrix& scores, int row, const std::vector<float>& bias,
                                   const RouterOptions& options, int top_k) {
  const int size = scores.cols / options.groups;
  const auto key = [&](int e) { return sigmoid(scores.at(row, e)) + bias[std::size_t(e)]; };
  const auto groups = by_score(options.groups, [&](int g) {
    const auto best = by_score(size, [&](int e) { return key(g * size + e); });
    return key(g * size + best[0]) + key(g * size + best[1]);
  });
  const auto open = std::span(groups).first(std::size_t(options.groups_used));
  auto chosen = by_score(scores.cols, key);
  std::erase_if(chosen, [&](int e) { return std::ranges::count(open, e / size) == 0; });
  chosen.resize(std::size_t(top_k));
  return chosen;
}

/// The weights of all experts, apart and as one.
struct Experts {
  Experts(WeightFormat format, int count, int outputs, int inputs, Random& random) {
    for (int e = 0; e < count; ++e)
      apart.push_back(std::make_unique<HostWeight>(format, outputs, inputs, random));
  }
  void add_biases(Random& random) {
    for (const auto& each : apart)
      each->matrix.bias =
          biases.emplace_back(random.floats(std::size_t(each->matrix.rows), 2)).data();
  }
  std::shared_ptr<const Weight> pack(const Rig& rig) const {
    std::vector<HostMatrix> parts;
    for (const auto& each : apart)
      parts.push_back(each->matrix);
    return rig.device->pack(parts).value();
  }

  std::vector<std::unique_ptr<HostWeight>> apart;
  std::deque<std::vector<float>> biases;
};

Matrix by_experts(const Rig& rig, const Weight& w, Matrix& in, RoutedRows order,
                  const Routing& routing) {
  Matrix out(routing.picks(), w.outputs() / routing.experts);
  rig.run(
      [&](Operations& ops) { ops.expert_linear(out.tensor(), in.tensor(), order, w, routing); });
  return out;
}

/// A whole mixture: its products have one activation between them.
struct Mixture {
  Mixture(const Rig& rig, const Experts& in, const Experts& out, int k)
      : up(in.pack(rig)), down(out.pack(rig)), experts(int(in.apart.size())), top_k(k) {}

  Matrix operator()(const Rig& rig, Matrix& scores, Matrix& in) const {
    Routed routed(in.rows, experts, top_k);
    Matrix wide(routed.routing.picks(), up->outputs() / experts);
    Matrix narrow(wide.rows, wide.cols / 2);
    Matrix each(wide.rows, down->outputs() / experts);
    Matrix out(in.rows, each.cols);
    rig.run([&](Operations& ops) {
      const Routing& r = routed.routing;
      ops.route(r, scores.tensor(), nullptr, {true});
      ops.expert_linear(wide.tensor(), in.tensor(), RoutedRows::by_row, *up, r);
      ops.gate(narrow.tensor(), wide.tensor(), Gating{Activation::silu});
      ops.expert_linear(each.tensor(), narrow.tensor(), RoutedRows::by_slot, *down, r);
      ops.combine(out.tensor(), each.tensor(), r, false);
    });
    return out;
  }

  std::shared_ptr<const Weight> up;
  std::shared_ptr<const Weight> down;
  int experts;
  int top_k;
};

} // namespace

TEST_CASE("a router takes the highest scores, and of equal ones the lowest expert") {
  Random random(1);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    for (const int experts : {1, 5, 64, 130}) {
      Matrix scores(37, experts);
      for (float& score : scores.values)
        score = float(random.below(4)) / 2; // Many are equal.
      const int top_k = std::min(experts, 8);
      const Routed routed = route(rig, scores, top_k);
      for (int r = 0; r < scores.rows; ++r) {
        const auto order = by_score(experts, [&](int e) { return scores.at(r, e); });
        double total = 0;
        for (int e = 0; e < experts; ++e)
          total += std::exp(double(scores.at(r, e)));
        for (int k = 0; k < top_k; ++k) {
          const int expert = order[std::size_t(k)];
          CHECK(routed.expert(r, k) == expert);
          CHECK(routed.weight(r, k) ==
                doctest::Approx(std::exp(double(scores.at(r, expert))) / total).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("weights of a row's experts add up to one where that is asked for") {
  Random random(2);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Matrix scores(9, 40, random, 3);
    const Routed plain = route(rig, scores, 4);
    const Routed normalised = route(rig, scores, 4, {true});
    for (int r = 0; r < scores.rows; ++r) {
      float sum = 0;
      float sum_plain = 0;
      for (int k = 0; k < 4; ++k) {
        sum += normalised.weight(r, k);
        sum_plain += plain.weight(r, k);
      }
      CHECK(sum == doctest::Approx(1));
      CHECK(sum_plain < 0.9f);
      CHECK(normalised.weight(r, 0) == doctest::Approx(plain.weight(r, 0) / sum_plain));
    }
  }
}

TEST_CASE("the weight of an expert that is chosen has the expert's factor, at the end") {
  Random random(12);
  const std::vector<float> factors = random.floats(40, 2);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    Matrix scores(9, 40, random, 3);
    RouterOptions options{.normalised = true};
    const Routed plain = route(rig, scores, 4, options);
    options.expert_scales = factors.data();
    const Routed scaled = route(rig, scores, 4, options);
    for (int r = 0; r < scores.rows; ++r)
      for (int k = 0; k < 4; ++k) {
        CHECK(scaled.expert(r, k) == plain.expert(r, k));
        CHECK(scaled.weight(r, k) == plain.weight(r, k) * factors[std::size_t(plain.expert(r, k))]);
      }
  }
}

TEST_CASE(
    "a router of sigmoids chooses by score and bias, in its best groups, and weighs by score") {
  Random random(7);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    for (const RouterOptions& options :
         {RouterOptions{.scores = RouterScores::sigmoid},
          {.normalised = true, .scores = RouterScores::sigmoid, .scale = 2.5f},
          {.scores = RouterScores::sigmoid, .scale = 0.5f, .groups = 8, .groups_used = 3},
          {.normalised = true, .scores = RouterScores::sigmoid, .groups = 32, .groups_used = 5}}) {
      CAPTURE(options.groups);
      Matrix scores(23, 128, random, 2);
      std::vector<float> bias(128);
      for (float& each : bias)
        each = float(random.below(1000)) / 1000 - 0.5f;
      const Routed routed = route(rig, scores, 6, options, bias.data());
      for (int r = 0; r < scores.rows; ++r) {
        const auto chosen = chosen_by_sigmoid(scores, r, bias, options, 6);
        double sum = 0;
        for (const int expert : chosen)
          sum += sigmoid(scores.at(r, expert));
        for (int k = 0; k < 6; ++k) {
          const int expert = chosen[std::size_t(k)];
          CHECK(routed.expert(r, k) == expert);
          const double weight =
              sigmoid(scores.at(r, expert)) / (options.normalised ? sum : 1) * options.scale;
          CHECK(routed.weight(r, k) == doctest::Approx(weight).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("groups with the same score are taken from the first on, and any scores choose experts") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    const RouterOptions options{.scores = RouterScores::sigmoid, .groups = 4, .groups_used = 2};
    Matrix scores(3, 12);
    for (int e = 0; e < 12; ++e)
      scores.values[std::size_t(e)] = 1;
    std::fill(scores.values.begin() + 12, scores.values.begin() + 24, std::nanf(""));
    for (int e = 24; e < 36; ++e) // Sigmoids of 0, and weights whose sum is 0.
      scores.values[std::size_t(e)] = -1e30f;
    const Routed routed = route(rig, scores, 4, options);
    for (int k = 0; k < 4; ++k)
      CHECK(routed.expert(0, k) == k);
    for (int pick = 0; pick < routed.routing.picks(); ++pick) {
      CHECK(routed.routing.chosen[pick] >= 0);
      CHECK(routed.routing.chosen[pick] < 12);
    }
    RouterOptions normalised = options;
    normalised.normalised = true;
    CHECK(route(rig, scores, 4, normalised).weight(2, 0) == 0);
  }
}

TEST_CASE("rows are scaled by the sigmoids of their scores") {
  Random random(8);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    Matrix x(5, 700, random);
    Matrix scores(5, 703, random, 2);
    for (const bool each : {false, true}) { // A score for each number, or one for all of a row.
      Matrix scaled = x;
      const Tensor used = scores.tensor().columns(2, each ? 700 : 1);
      rig.run([&](Operations& ops) { ops.scale_by_sigmoid(scaled.tensor(), used); });
      for (int r = 0; r < 5; ++r)
        for (const int c : {0, 1, 511, 512, 699})
          CHECK(scaled.at(r, c) ==
                doctest::Approx(x.at(r, c) * sigmoid(scores.at(r, each ? c + 2 : 2))));
    }
  }
}

TEST_CASE("slots are in the order of experts, and an expert's in that of rows") {
  Random random(3);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 3);
    for (const int rows : {1, 3, 90}) {
      Matrix scores(rows, 24, random);
      const Routed routed = route(rig, scores, 5);
      const Routing& r = routed.routing;
      CHECK(r.first[0] == 0);
      CHECK(r.first[24] == r.picks());
      for (int e = 0; e < 24; ++e)
        for (int slot = r.first[e]; slot < r.first[e + 1]; ++slot) {
          CHECK(r.chosen[r.picks_of[slot]] == e);
          CHECK(r.slots[r.picks_of[slot]] == slot);
          CHECK((slot == r.first[e] || r.picks_of[slot - 1] < r.picks_of[slot]));
        }
    }
  }
}

TEST_CASE("scores that are no numbers choose experts all the same") {
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 1);
    Matrix scores(2, 6);
    std::fill(scores.values.begin(), scores.values.end(), std::nanf(""));
    scores.values[3] = 1;
    const Routed routed = route(rig, scores, 3);
    for (int pick = 0; pick < routed.routing.picks(); ++pick) {
      CHECK(routed.routing.chosen[pick] >= 0);
      CHECK(routed.routing.chosen[pick] < 6);
    }
    CHECK(routed.routing.first[6] == 6);
  }
}

TEST_CASE("a product by experts is each expert's own product of its rows, bit for bit") {
  Random random(4);
  const std::vector<WeightFormat> formats{WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16,
                                          WeightFormat::mxfp8, WeightFormat::mxfp4};
  for (const std::string& name : backends())
    for (const WeightFormat format : formats) {
      CAPTURE(name);
      CAPTURE(std::string(to_string(format)));
      const Rig rig(name, 2);
      Experts experts(format, 9, 48, 100, random);
      if (format == WeightFormat::f32 || format == WeightFormat::mxfp4)
        experts.add_biases(random);
      const auto all = experts.pack(rig);
      std::vector<std::shared_ptr<const Weight>> apart;
      for (const auto& each : experts.apart)
        apart.push_back(rig.device->pack({&each->matrix, 1}).value());
      for (const int rows : {1, 2, 5, 60}) {
        Matrix scores(rows, 9, random);
        const Routed routed = route(rig, scores, 3);
        const Routing& r = routed.routing;
        Matrix in(rows, 100, random);
        Matrix in_slots(r.picks(), 100, random);
        const Matrix out = by_experts(rig, *all, in, RoutedRows::by_row, r);
        const Matrix out_slots = by_experts(rig, *all, in_slots, RoutedRows::by_slot, r);
        int wrong = 0;
        for (int slot = 0; slot < r.picks(); ++slot) {
          const Weight& own = *apart[std::size_t(r.chosen[r.picks_of[slot]])];
          Matrix row = in.slice(r.picks_of[slot] / 3, 1);
          Matrix row_in_slot = in_slots.slice(slot, 1);
          wrong += !(product(rig, own, row) == out.slice(slot, 1));
          wrong += !(product(rig, own, row_in_slot) == out_slots.slice(slot, 1));
        }
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE("picks are added by their weights, in the order of scores") {
  Random random(5);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 2);
    Matrix scores(7, 10, random);
    const Routed routed = route(rig, scores, 4);
    Matrix in(28, 600, random);
    for (const bool add : {false, true}) {
      Matrix out(7, 600);
      std::fill(out.values.begin(), out.values.end(), 0.5f);
      rig.run(
          [&](Operations& ops) { ops.combine(out.tensor(), in.tensor(), routed.routing, add); });
      for (int r = 0; r < 7; ++r)
        for (const int c : {0, 1, 511, 512, 599}) {
          float sum = 0;
          for (int k = 0; k < 4; ++k)
            sum += routed.weight(r, k) * in.at(routed.routing.slots[r * 4 + k], c);
          CHECK(out.at(r, c) == doctest::Approx(add ? 0.5f + sum : sum));
        }
    }
  }
}

TEST_CASE("picks are spread to the places of their experts, and nothing is said elsewhere") {
  Random random(7);
  for (const std::string& name : backends()) {
    CAPTURE(name);
    const Rig rig(name, 3);
    const int each = 48;
    Matrix scores(5, 11, random);
    const Routed routed = route(rig, scores, 4);
    Matrix in(20, each, random);
    Matrix out(5, 11 * each);
    rig.run([&](Operations& ops) { ops.spread(out.tensor(), in.tensor(), routed.routing); });
    int wrong = 0;
    for (int r = 0; r < 5; ++r)
      for (int c = 0; c < 11 * each; ++c) {
        float expected = -std::numeric_limits<float>::infinity();
        for (int pick = 4 * r; pick < 4 * r + 4; ++pick)
          if (routed.routing.chosen[pick] == c / each)
            expected = in.at(routed.routing.slots[pick], c % each);
        wrong += !(out.at(r, c) == expected);
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a row of a mixture has the same bits alone, in any batch and on any number of ranks") {
  Random random(6);
  for (const std::string& name : backends())
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::mxfp6}) {
      CAPTURE(name);
      CAPTURE(std::string(to_string(format)));
      const Experts up(format, 6, 64, 80, random);
      const Experts down(format, 6, 80, 32, random);
      const Rig rig(name, 1);
      const Mixture mixture(rig, up, down, 2);
      Matrix scores(50, 6, random);
      Matrix in(50, 80, random);
      const Matrix all = mixture(rig, scores, in);
      for (const int threads : {1, 3})
        for (const auto& [first, count] : {std::pair(0, 1), {17, 1}, {49, 1}, {3, 9}, {20, 30}}) {
          const Rig other(name, threads);
          const Mixture same(other, up, down, 2);
          Matrix some_scores = scores.slice(first, count);
          Matrix some = in.slice(first, count);
          CHECK(same(other, some_scores, some) == all.slice(first, count));
        }
    }
}
