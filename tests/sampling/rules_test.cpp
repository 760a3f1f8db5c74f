#include "sampling/rules.hpp"
#include "sampling/rules_core.hpp"
#include "sampling/theory.hpp"
#include "tests/support/statistics.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::sampling;
namespace testing = paceline::testing;

namespace {

using Row = std::vector<float>;

struct WholeRow {
  const std::vector<float>& w;
  float weight(std::size_t i) const { return w[i]; }
  double sum(std::size_t first, std::size_t count) const {
    double total = 0;
    for (std::size_t i = first; i < first + count; ++i)
      total += double(w[i]);
    return total;
  }
};

TokenId inverted(const Row& w, double u) {
  return invert(WholeRow{w}, w.size(), u);
}

Row random_row(std::size_t n, unsigned seed, unsigned zero_in = 0) {
  std::mt19937 random(seed);
  std::gamma_distribution<float> gamma(0.5f);
  Row row(n);
  double total = 0;
  for (float& x : row) {
    x = zero_in > 0 && random() % zero_in == 0 ? 0 : gamma(random) + 1e-6f;
    total += double(x);
  }
  for (float& x : row)
    x = float(double(x) / total);
  return row;
}

/// p-value of `draws` draws of draw_one(seed) against a row.
template <class Draw>
double fit(const Row& row, std::uint64_t draws, Draw draw_one) {
  std::vector<std::uint64_t> counts(row.size());
  for (std::uint64_t seed = 0; seed < draws; ++seed)
    ++counts[std::size_t(draw_one(seed))];
  double total = 0;
  for (float x : row)
    total += double(x);
  std::vector<double> probabilities;
  for (float x : row)
    probabilities.push_back(double(x) / total);
  return testing::chi_square(probabilities, counts).p_value;
}

constexpr double just_below_one = 1 - 0x1p-53;

} // namespace

TEST_CASE("The automatic rule is coupled when a seed was named, else rejection") {
  CHECK(resolve(VerifyRule::automatic, true) == Rule::coupled);
  CHECK(resolve(VerifyRule::automatic, false) == Rule::rejection);
  CHECK(resolve(VerifyRule::match, true) == Rule::match);
}

TEST_CASE("A token is accepted strictly below p/q, so never when p is 0") {
  CHECK_FALSE(accepts(0, 0, 0.5f));
  CHECK_FALSE(accepts(0, 0, 0));
  CHECK(accepts(0, 1e-45f, 1));
  CHECK(accepts(0.4999, 0.25f, 0.5f));
  CHECK_FALSE(accepts(0.5, 0.25f, 0.5f));
  CHECK(accepts(0.999999, 0.5f, 0.5f));
  CHECK(accepts(0.5, 0.1f, 0));
}

TEST_CASE("Inversion goes by the cumulative sum in id order, over block borders too") {
  // Whole numbers: every sum is exact, so every draw is decided.
  std::mt19937 random(2);
  Row w(3 * inversion_block + 17);
  for (float& x : w)
    x = float(random() % 4);
  std::vector<TokenId> owner; // of each unit of mass
  for (std::size_t i = 0; i < w.size(); ++i)
    owner.insert(owner.end(), std::size_t(w[i]), TokenId(i));
  for (std::size_t unit = 0; unit < owner.size(); ++unit)
    CHECK(inverted(w, (double(unit) + 0.5) / double(owner.size())) == owner[unit]);
}

TEST_CASE("A token of weight zero is never drawn, at either end of u") {
  Row w(2 * inversion_block);
  w[3] = 0.1f;
  w[9] = 0.3f;
  CHECK(inverted(w, 0) == 3);
  CHECK(inverted(w, just_below_one) == 9);
  w[inversion_block + 5] = 1e-30f;                       // too small to move the sum
  CHECK(inverted(w, 1) == TokenId(inversion_block) + 5); // as if rounding had lost the goal
  CHECK(inverted(Row(700), 0.5) == -1);
  CHECK(inverted({}, 0.5) == -1);
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Row row = random_row(700, seed, 2);
    for (double u : {0.0, 1e-300, 0.5, 1 - 1e-9, just_below_one})
      CHECK(row[std::size_t(inverted(row, u))] > 0);
  }
}

TEST_CASE("draw and draw_coupled have the distribution of their row, normalised or not") {
  Row row = random_row(60, 1, 3);
  CHECK(fit(row, 100'000, [&](auto seed) {
          return draw(row, {seed, 0, 5, 0, Purpose::target});
        }) > testing::false_alarm);
  CHECK(fit(row, 100'000, [&](auto seed) {
          return draw_coupled(row, {seed, 0, 5, 0, Purpose::coupled});
        }) > testing::false_alarm);
  for (float& x : row)
    x *= 7;
  CHECK(fit(row, 100'000, [&](auto seed) {
          return draw(row, {seed, 1, 5, 0, Purpose::target});
        }) > testing::false_alarm);
  CHECK(fit(row, 100'000, [&](auto seed) {
          return draw_coupled(row, {seed, 1, 5, 0, Purpose::coupled});
        }) > testing::false_alarm);
}

TEST_CASE("The choices of one seed have noise of their own, in every draw of every rule") {
  const Row p = random_row(30, 3, 4);
  const Row q = random_row(30, 4);
  constexpr std::uint64_t seed = 17;
  for (const auto rule : {Rule::rejection, Rule::coupled, Rule::match}) {
    const auto noise = [](std::uint64_t choice) { return Noise{seed, std::uint32_t(choice)}; };
    CHECK(fit(q, 50'000, [&](auto choice) { return propose(rule, q, noise(choice), 5, 5); }) >
          testing::false_alarm);
    CHECK(fit(p, 50'000, [&](auto choice) { return follow(rule, p, noise(choice), 5); }) >
          testing::false_alarm);
    CHECK(fit(p, 50'000, [&](auto choice) {
            const TokenId token = propose(rule, q, noise(choice), 5, 5);
            return judge(rule, p, q, token, noise(choice), 5).token;
          }) > testing::false_alarm);
  }
}

TEST_CASE("A sparse row draws what the same row draws with its zeros") {
  const Row dense = random_row(2000, 5, 50);
  Row row(dense.size());
  std::vector<TokenWeight> sparse;
  for (std::size_t i = 0; i < dense.size(); i += 97)
    if (dense[i] > 0) {
      row[i] = dense[i];
      sparse.push_back({TokenId(i), dense[i]});
    }
  REQUIRE(sparse.size() > 10);
  sparse.push_back({3, 0}); // never drawn
  for (const Rule rule : {Rule::rejection, Rule::coupled, Rule::match})
    for (std::uint32_t position = 0; position < 500; ++position)
      CHECK(propose(rule, sparse, {7, 1}, position, 2) == propose(rule, row, {7, 1}, position, 2));
}

TEST_CASE("A one-hot row draws its token under every rule and seed") {
  Row row(5000);
  row[4321] = 1;
  for (auto rule : {Rule::rejection, Rule::coupled, Rule::match})
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      CHECK(follow(rule, row, {seed, 0}, 9) == 4321);
      CHECK(propose(rule, row, {seed, 0}, 9, 2) == 4321);
      const auto good = judge(rule, row, row, 4321, {seed, 0}, 9);
      CHECK((good.accepted && good.token == 4321));
      Row wrong(5000);
      wrong[7] = 1;
      const auto bad = judge(rule, row, wrong, 7, {seed, 0}, 9);
      CHECK((!bad.accepted && bad.token == 4321));
    }
}

TEST_CASE("rejection accepts at rate 1 - TV, coupled at least at (1 - TV) / (1 + TV)") {
  for (unsigned world = 0; world < 4; ++world) {
    const Row p = random_row(40, world);
    const Row q = random_row(40, world + 100);
    const double a = theory::acceptance(p, q);
    constexpr int rounds = 40'000;
    const auto rate = [&](Rule rule) {
      int accepted = 0;
      for (std::uint64_t seed = 0; seed < rounds; ++seed) {
        const Noise noise{seed, world};
        accepted += judge(rule, p, q, propose(rule, q, noise, 4, 4), noise, 4).accepted;
      }
      return double(accepted) / rounds;
    };
    // Six standard deviations: a false alarm in 5e8 checks.
    const double six = 6 * std::sqrt(a * (1 - a) / rounds);
    CHECK(std::abs(rate(Rule::rejection) - a) < six);
    const double least = a / (2 - a); // (1 - TV) / (1 + TV), with TV = 1 - a
    CHECK(rate(Rule::coupled) > least - 6 * 0.5 / std::sqrt(rounds));
    double equal = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
      equal += double(p[i]) * double(q[i]);
    CHECK(std::abs(rate(Rule::match) - equal) < 6 * std::sqrt(equal / rounds));
  }
}

TEST_CASE("A token outside the vocabulary is rejected, and one of the target's takes its place") {
  const Row p = random_row(20, 5, 4);
  const Row q = random_row(20, 6);
  for (TokenId token : {-1, 20, 1'000'000, std::numeric_limits<TokenId>::min()})
    for (auto rule : {Rule::rejection, Rule::coupled, Rule::match}) {
      CAPTURE(token);
      CHECK(fit(p, 20'000, [&](auto seed) {
              const auto j = judge(rule, p, q, token, {seed, 0}, 3);
              CHECK_FALSE(j.accepted);
              return j.token;
            }) > testing::false_alarm);
    }
}

TEST_CASE("Padding that a draft proposes all the same is rejected") {
  Row p = random_row(20, 5);
  p.resize(24); // ids 20 to 23 are padding
  Row q(24);
  q[22] = 1;
  CHECK(fit(p, 20'000, [&](auto seed) {
          const auto j = judge(Rule::rejection, p, q, 22, {seed, 0}, 3);
          CHECK_FALSE(j.accepted);
          return j.token;
        }) > testing::false_alarm);
}

TEST_CASE("A residual without mass falls back to the target's row") {
  const Row p{0.5f, 0.25f, 0.25f};
  const Row q{1, 1, 1}; // no distribution at all, and nowhere below p
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto j = judge(Rule::rejection, p, q, 1, {seed, 0}, 3);
    CHECK((j.token >= 0 && j.token < 3));
  }
}

TEST_CASE("A proposal is a pure function that the verifier can repeat") {
  const Row q = random_row(300, 8);
  for (auto rule : {Rule::rejection, Rule::coupled, Rule::match})
    CHECK(propose(rule, q, {1, 2}, 30, 28) == propose(rule, Row(q), {1, 2}, 30, 28));
  int differ = 0;
  for (std::uint32_t attempt = 0; attempt < 40; ++attempt) {
    differ += propose(Rule::rejection, q, {1, 2}, 30, attempt) !=
              propose(Rule::rejection, q, {1, 2}, 30, 99);
    CHECK(propose(Rule::coupled, q, {1, 2}, 30, attempt) == follow(Rule::coupled, q, {1, 2}, 30));
  }
  CHECK(differ > 20);
}
