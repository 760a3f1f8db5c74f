#include "sampling/rules.hpp"
#include "sampling/warp.hpp"
#include "tests/sampling/every_target.hpp"
#include "tests/sampling/infinity.hpp"
#include "tests/sampling/reference_warp.hpp"
#include "tests/sampling/toy_constraint.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

using namespace paceline;
using namespace paceline::sampling;
using paceline::testing::infinity;
using paceline::testing::on_every_target;
using paceline::testing::reference_warp;

namespace {

struct Warped {
  bool valid = false;
  std::vector<float> p;
};

Warped run(const std::vector<float>& logits, const Warping& warping, const History& history = {},
           int vocabulary = -1) {
  static WarpScratch scratch; // shared on purpose: nothing may be left behind in it
  Warped out{false, std::vector<float>(logits.size(), -1)};
  const int size = vocabulary < 0 ? int(logits.size()) : vocabulary;
  out.valid = warp(logits, size, warping, history, scratch, out.p);
  return out;
}

std::vector<TokenId> support(const std::vector<float>& p) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0)
      ids.push_back(TokenId(i));
  return ids;
}

Warping at(float temperature) {
  Warping w;
  w.temperature = temperature;
  return w;
}

/// A row, a warping and a history that exercise everything; some rows have only a few values, so
/// that ties abound.
struct Case {
  std::vector<float> logits;
  int vocabulary = 0;
  Warping warping;
  std::vector<TokenId> committed;
  std::vector<TokenId> prefix;
  std::size_t prompt_tokens = 0;

  History history() const { return {committed, prompt_tokens, prefix}; }
};

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  Case c;
  const std::size_t n = one_in(8) ? 5000 + random() % 3000 : 1 + random() % 300;
  c.vocabulary = int(one_in(3) ? n - random() % std::min<std::size_t>(n, 10) : n);
  std::normal_distribution<float> normal(0, float(uniform(0.1, 6)));
  const bool ties = one_in(3);
  for (std::size_t i = 0; i < n; ++i) {
    const float x = normal(random);
    c.logits.push_back(one_in(50) && i > 0 ? -infinity : ties ? std::round(x) : x);
  }
  c.warping.temperature = one_in(6) ? 0 : float(uniform(0.1, 2));
  c.warping.top_k = one_in(2) ? int(random() % (n + 3)) : 0;
  c.warping.top_p = one_in(2) ? float(uniform(0.01, 1)) : 1;
  c.warping.min_p = one_in(3) ? float(uniform(0, 0.5)) : 0;
  c.warping.repetition_penalty = one_in(3) ? float(uniform(0.5, 2)) : 1;
  c.warping.presence_penalty = one_in(3) ? float(uniform(-2, 2)) : 0;
  c.warping.frequency_penalty = one_in(3) ? float(uniform(-2, 2)) : 0;
  for (unsigned i = one_in(3) ? random() % 5 : 0; i > 0; --i)
    c.warping.logit_bias.emplace_back(TokenId(random() % (n + 2)), float(uniform(-10, 10)));
  for (unsigned i = random() % 60; i > 0; --i)
    c.committed.push_back(TokenId(random() % (n + 1)) - TokenId(one_in(40)));
  for (unsigned i = random() % 6; i > 0; --i)
    c.prefix.push_back(TokenId(random() % n));
  c.prompt_tokens = c.committed.empty() ? 0 : random() % (c.committed.size() + 1);
  if (one_in(4)) { // the first token always stays possible
    c.warping.allowed = {0};
    for (unsigned i = random() % n; i > 0; --i)
      c.warping.allowed.push_back(TokenId(random() % (n + 2)));
  }
  if (one_in(4)) {
    c.warping.min_tokens = int(random() % 30);
    for (unsigned i = random() % 5; i > 0; --i)
      c.warping.held_back.push_back(TokenId(1 + random() % (n + 2)));
  }
  if (one_in(4))
    c.warping.constraint = std::make_shared<paceline::testing::ToyConstraint>(c.vocabulary, seed);
  return c;
}

} // namespace

TEST_CASE("Warping agrees with its definition, on every instruction set") {
  int truncated = 0;
  int undecided = 0;
  on_every_target([&] {
    for (unsigned seed = 0; seed < 1500; ++seed) {
      CAPTURE(seed);
      const Case c = random_case(seed);
      const auto expected = reference_warp(c.logits, c.vocabulary, c.warping, c.history());
      if (expected.margin < 1e-6) { // the reference itself may round to the other side
        ++undecided;
        continue;
      }
      const auto got = run(c.logits, c.warping, c.history(), c.vocabulary);
      REQUIRE(got.valid);
      double total = 0;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < got.p.size(); ++i) {
        total += double(got.p[i]);
        // An exponent rounded to f32 is off by its size times 2^-24, several times over.
        const double p = expected.p[i];
        const double tolerance = p > 0 ? p * (2e-6 - 3e-7 * std::log(p)) + 1e-37 : 0;
        wrong += !(std::abs(double(got.p[i]) - p) <= tolerance);
      }
      CHECK(wrong == 0);
      CHECK(total == doctest::Approx(1).epsilon(1e-5));
      truncated += c.warping.top_p < 1 && c.warping.temperature > 0;
    }
  });
  CHECK(truncated > 500);
  CHECK(undecided < 60);
}

TEST_CASE("A form that is whole ends the answer, though it be before min_tokens") {
  // Allows token 0 alone.
  Warping w = at(1);
  w.constraint = std::make_shared<paceline::testing::ToyConstraint>(4, 1, ~0u);
  w.min_tokens = 5;
  w.held_back = {0, 3, 0};
  CHECK(support(run({1, 2, 3, 4}, w).p) == std::vector<TokenId>{0});
  w.constraint = std::make_shared<paceline::testing::ToyConstraint>(4, 1, ~0u, 1);
  CHECK(support(run({1, 2, 3, 4}, w).p) == std::vector<TokenId>{1});
  w.constraint = std::make_shared<paceline::testing::ToyConstraint>(4, 1, 1);
  CHECK(support(run({1, 2, 3, 4}, w).p) == std::vector<TokenId>{1, 2});
}

TEST_CASE("Warping is a pure function of its row: what was warped before leaves no trace") {
  const Case c = random_case(7);
  const auto first = run(c.logits, c.warping, c.history(), c.vocabulary);
  for (unsigned seed = 20; seed < 40; ++seed) {
    const Case other = random_case(seed);
    run(other.logits, other.warping, other.history(), other.vocabulary);
    CHECK(run(c.logits, c.warping, c.history(), c.vocabulary).p == first.p);
  }
}

TEST_CASE("Greedy puts all mass on the likeliest token, the lowest id among equals") {
  CHECK(run({1, 5, 2, 5}, at(0)).p == std::vector<float>{0, 1, 0, 0});
  Warping biased = at(0);
  biased.logit_bias = {{3, 0.5f}};
  CHECK(run({1, 5, 2, 5}, biased).p == std::vector<float>{0, 0, 0, 1});
  Warping penalised = at(0);
  penalised.repetition_penalty = 2;
  const TokenId said[] = {1, 3};
  CHECK(run({1, 5, 3, 5}, penalised, {said, 2, {}}).p == std::vector<float>{0, 0, 1, 0});
}

TEST_CASE("The repetition penalty looks at prompt and output, and at the sign of the logit") {
  Warping w = at(1);
  w.repetition_penalty = 2;
  const TokenId committed[] = {0, 1, 1}; // 0 in the prompt, 1 twice in the output: applied once
  const TokenId prefix[] = {3};
  const auto got = run({2, -1, 0.5f, 1}, w, {committed, 1, prefix});
  const auto expected = run({1, -2, 0.5f, 0.5f}, at(1));
  CHECK(got.p == expected.p);
}

TEST_CASE(
    "Presence and frequency penalties look at the output only, the window's prefix included") {
  Warping w = at(1);
  w.presence_penalty = 0.5f;
  w.frequency_penalty = 0.25f;
  const TokenId committed[] = {0, 0, 1};
  const TokenId prefix[] = {1, 2};
  const auto got = run({1, 1, 1, 1}, w, {committed, 2, prefix});
  const auto expected = run({1, 0, 0.25f, 1}, at(1));
  CHECK(got.p == expected.p);
}

TEST_CASE("A penalty sees a rejected token no more once it has left the prefix") {
  Warping w = at(1);
  w.frequency_penalty = 1;
  const TokenId committed[] = {0};
  const TokenId prefix[] = {1};
  const auto before = run({1, 1, 1}, w, {committed, 0, {}});
  run({1, 1, 1}, w, {committed, 0, prefix});
  CHECK(run({1, 1, 1}, w, {committed, 0, {}}).p == before.p);
}

TEST_CASE("Warpers apply in their order") {
  // Top-k first: of {4, 3, 2, 1}, two remain; the nucleus is then of their mass alone.
  Warping w = at(1);
  w.top_k = 2;
  w.top_p = 0.73f; // below e / (1 + e), the first one's share of the two
  CHECK(support(run({3, 4, 2, 1}, w).p) == std::vector<TokenId>{1});
  // A bias may lift a token into the top.
  w.top_p = 1;
  w.logit_bias = {{3, 10}};
  CHECK(support(run({3, 4, 2, 1}, w).p) == std::vector<TokenId>{1, 3});
  // Temperature flattens before the nucleus is measured.
  Warping hot = at(100);
  hot.top_p = 0.8f;
  CHECK(support(run({3, 4, 2, 1}, hot).p).size() == 4);
  // min-p looks at ratios to the likeliest, so it does not matter that others have gone.
  Warping ratio = at(1);
  ratio.min_p = 0.3f;
  CHECK(support(run({3, 4, 2, 1}, ratio).p) == std::vector<TokenId>{0, 1});
}

TEST_CASE("Ties are broken by the lowest id, however they are truncated") {
  on_every_target([] {
    for (std::size_t n : {5, 40, 700}) {
      std::vector<float> flat(n, 1.5f);
      Warping k = at(1);
      k.top_k = 3;
      CHECK(support(run(flat, k).p) == std::vector<TokenId>{0, 1, 2});
      Warping p = at(1);
      p.top_p = 2.5f / float(n);
      CHECK(support(run(flat, p).p) == std::vector<TokenId>{0, 1, 2});
      flat[n - 1] = 2;
      CHECK(support(run(flat, k).p) == std::vector<TokenId>{0, 1, TokenId(n - 1)});
    }
  });
}

TEST_CASE("A token whose mass reaches top-p exactly ends the nucleus") {
  Warping w = at(1);
  w.top_p = 0.5f;
  CHECK(support(run({0, 0, 0, 0}, w).p) == std::vector<TokenId>{0, 1});
  w.top_p = 0.5f + 1e-6f;
  CHECK(support(run({0, 0, 0, 0}, w).p) == std::vector<TokenId>{0, 1, 2});
}

TEST_CASE("However small top-p and however large min-p, the likeliest token stays") {
  Warping w = at(1);
  w.top_p = 1e-30f;
  CHECK(support(run({0, 1, 1}, w).p) == std::vector<TokenId>{1});
  w.top_p = 1;
  w.min_p = 1;
  CHECK(support(run({0, 1, 1}, w).p) == std::vector<TokenId>{1, 2});
  w = at(1);
  w.top_k = 1;
  CHECK(run({0, 1, 1}, w).p == std::vector<float>{0, 1, 0});
}

TEST_CASE("Truncation finds the same tokens in a flat row of a large vocabulary") {
  std::mt19937 random(3);
  std::vector<float> logits(151'936);
  for (float& x : logits)
    x = std::uniform_real_distribution<float>(0, 1)(random);
  for (int top_k : {1, 50, 5000, 100'000}) {
    Warping w = at(1);
    w.top_k = top_k;
    CHECK(support(run(logits, w).p).size() == std::size_t(top_k));
    w.top_p = 0.5f;
    const auto expected = reference_warp(logits, int(logits.size()), w, {});
    const auto got = run(logits, w);
    const std::vector<float> as_float(expected.p.begin(), expected.p.end());
    CHECK(support(got.p) == support(as_float));
  }
}

// Top-p looks at a sample first: one that is like the row, one that misses all that is likely, and
// some that take the row for likelier, or for less likely, than it is.
TEST_CASE("top-p of a large vocabulary keeps the same tokens whatever a sample says") {
  std::mt19937 random(4);
  const auto uniform = [&](float from, float to) {
    return std::uniform_real_distribution<float>(from, to)(random);
  };
  for (const std::size_t size : {32'768u, 50'257u})
    for (const float sampled : {0.0f, -20.0f, 3.0f})
      for (const int peaks : {0, 3}) {
        CAPTURE(size);
        CAPTURE(sampled);
        CAPTURE(peaks);
        std::vector<float> logits(size);
        for (std::size_t i = 0; i < size; ++i)
          logits[i] = uniform(-4, 1) + (i % (size / 512) == 0 ? sampled : 0.0f);
        for (int i = 0; i < peaks; ++i)
          logits[random() % size] =
              10.0f - float(i); // More, and masses of others would be rounded to little.
        for (const float top_p : {0.3f, 0.9f, 0.97f}) {
          Warping w = at(1);
          w.top_p = top_p;
          const auto expected = reference_warp(logits, int(size), w, {});
          const std::vector<float> as_float(expected.p.begin(), expected.p.end());
          CHECK(support(run(logits, w).p) == support(as_float));
        }
      }
}

TEST_CASE("Padding ids have no probability, whatever their logits") {
  for (float temperature : {0.0f, 1.0f})
    for (float top_p : {1.0f, 0.9f}) {
      Warping w = at(temperature);
      w.top_p = top_p;
      const auto got = run({1, 2, 100, std::nanf("")}, w, {}, 2);
      REQUIRE(got.valid);
      CHECK((got.p[2] == 0 && got.p[3] == 0));
      CHECK(got.p[0] + got.p[1] == doctest::Approx(1));
    }
}

TEST_CASE("Rows of a model that failed are refused") {
  const float nan = std::nanf("");
  for (float temperature : {0.0f, 1.0f}) {
    CHECK_FALSE(run({1, nan, 2}, at(temperature)).valid);
    CHECK_FALSE(run({-infinity, -infinity}, at(temperature)).valid);
    CHECK_FALSE(run({}, at(temperature)).valid);
    Warping banned = at(temperature);
    banned.logit_bias = {{0, -infinity}};
    CHECK_FALSE(run({1, -infinity}, banned).valid);
  }
}

TEST_CASE("Infinite logits: impossible below, the greatest finite value above") {
  CHECK(run({-infinity, 0, -infinity, 0}, at(1)).p == std::vector<float>{0, 0.5f, 0, 0.5f});
  CHECK(run({infinity, 0, infinity, 5}, at(1)).p == std::vector<float>{0.5f, 0, 0.5f, 0});
  CHECK(run({0, infinity, infinity}, at(0)).p == std::vector<float>{0, 1, 0});
  Warping ban = at(1);
  ban.logit_bias = {{0, -infinity}};
  CHECK(run({infinity, 1, 1}, ban).p == std::vector<float>{0, 0.5f, 0.5f});
  Warping force = at(1);
  force.logit_bias = {{2, infinity}};
  CHECK(run({5, 1, 1}, force).p == std::vector<float>{0, 0, 1});
}

TEST_CASE("Extreme temperatures neither overflow nor lose the likeliest token") {
  CHECK(run({1, 2, 3}, at(1e-44f)).p == std::vector<float>{0, 0, 1});
  const auto hot = run({-1000, 0, 1000}, at(std::numeric_limits<float>::max()));
  REQUIRE(hot.valid);
  CHECK(hot.p[0] == doctest::Approx(1.0 / 3));
}

namespace {

/// A distribution that every rule draws a token of mass from, or none at all.
bool sound(const Warped& row) {
  if (!row.valid)
    return true;
  double total = 0;
  for (const float p : row.p) {
    if (!(p >= 0))
      return false;
    total += double(p);
  }
  const auto has_mass = [&](TokenId token) {
    return token >= 0 && std::size_t(token) < row.p.size() && row.p[std::size_t(token)] > 0;
  };
  bool drawn = std::abs(total - 1) < 1e-4;
  for (const Rule rule : {Rule::rejection, Rule::coupled, Rule::match})
    drawn = drawn && has_mass(follow(rule, row.p, {17, 0}, 3)) &&
            has_mass(propose(rule, row.p, {17, 0}, 3, 0));
  return drawn;
}

} // namespace

TEST_CASE("The extremes of every warper leave a distribution or none, on every instruction set") {
  constexpr float most = std::numeric_limits<float>::max();
  constexpr float least = std::numeric_limits<float>::denorm_min();
  const float extremes[] = {-infinity, -most, -1e-30f, 0, least, 1, most, infinity};
  std::vector<std::vector<float>> rows;
  for (const float first : extremes)
    for (const float second : extremes)
      for (const std::size_t size : {3, 40}) {
        rows.emplace_back(size, second);
        rows.back()[0] = first;
      }
  std::vector<Warping> warpings;
  for (const float temperature : {0.0f, least, 1e-6f, 1.0f, 100.0f, most})
    for (const float repetition : {1e-6f, 0.5f, 1.0f, 100.0f})
      for (const float penalty : {-2.0f, 0.0f, 2.0f})
        for (const auto& bias :
             std::vector<std::vector<std::pair<TokenId, float>>>{{},
                                                                 {{0, infinity}},
                                                                 {{0, -infinity}},
                                                                 {{0, -infinity}, {0, infinity}},
                                                                 {{0, most}, {1, -most}},
                                                                 {{0, -infinity}, {1, -infinity}}})
          for (const auto& [top_k, top_p, min_p] : {std::tuple(0, 1.0f, 0.0f),
                                                    {1, 1e-6f, 1.0f},
                                                    {1 << 30, 1e-6f, 0.0f},
                                                    {0, 0.999999f, least}}) {
            Warping w = at(temperature);
            w.repetition_penalty = repetition;
            w.presence_penalty = w.frequency_penalty = penalty;
            w.logit_bias = bias;
            w.top_k = top_k;
            w.top_p = top_p;
            w.min_p = min_p;
            warpings.push_back(w);
          }
  const TokenId said[] = {0, 1, 0};
  int distributions = 0;
  std::size_t wrong = 0;
  on_every_target([&] {
    for (const Warping& w : warpings)
      for (const auto& row : rows) {
        const Warped got = run(row, w, {said, 1, {}});
        distributions += got.valid;
        if (!sound(got) && wrong++ == 0) {
          CAPTURE(w.temperature);
          CAPTURE(w.repetition_penalty);
          CAPTURE(w.presence_penalty);
          CAPTURE(w.top_k);
          CAPTURE(w.top_p);
          CAPTURE(w.min_p);
          CAPTURE(w.logit_bias.size());
          CAPTURE(row[0]);
          CAPTURE(row[1]);
          FAIL_CHECK("neither a distribution nor an error");
        }
      }
  });
  CHECK(wrong == 0);
  CHECK(distributions > 100'000);
}

TEST_CASE("A bias of +infinity stays the likeliest whatever the repetition penalty") {
  Warping w = at(1);
  w.logit_bias = {{1, infinity}};
  w.repetition_penalty = 0.5f;
  const TokenId said[] = {1};
  const auto got = run({3, 1, 2}, w, {said, 0, {}});
  REQUIRE(got.valid);
  CHECK(got.p == std::vector<float>{0, 1, 0});
}

TEST_CASE("A token that is impossible stays so, whatever is added") {
  Warping w = at(1);
  w.logit_bias = {{0, infinity}};
  CHECK(run({-infinity, 0, 0}, w).p == std::vector<float>{0, 0.5f, 0.5f});
  w.logit_bias = {{0, -infinity}, {0, infinity}};
  CHECK(run({5, 0, 0}, w).p == std::vector<float>{0, 0.5f, 0.5f});
}

TEST_CASE("Where there is no mass there is no token") {
  for (const std::vector<float>& row :
       {std::vector<float>(40, 0.0f), std::vector<float>(40, std::nanf("")), {}})
    for (const Rule rule : {Rule::rejection, Rule::coupled, Rule::match}) {
      CHECK(follow(rule, row, {17, 0}, 3) == -1);
      CHECK(propose(rule, row, {17, 0}, 3, 0) == -1);
      CHECK(judge(rule, row, row, 0, {17, 0}, 3).token == -1);
    }
}
