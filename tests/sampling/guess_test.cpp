#include "sampling/guess.hpp"
#include "tests/sampling/infinity.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::sampling;
using paceline::testing::infinity;

namespace {

std::vector<float> random_logits(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(count);
  for (float& x : logits)
    x = normal(random);
  return logits;
}

struct Guessing {
  Warping warping{.temperature = 1, .logit_bias = {}};
  History history;
  Rule rule = Rule::rejection;
  Noise noise{.seed = 9};
  WarpScratch scratch;

  Guesses of(std::span<const float> logits, TokenId drafted) {
    return guess(logits, int(logits.size()), warping, history, rule, noise, 5, drafted, scratch);
  }
};

std::vector<TokenId> all_of(const Guesses& guesses) {
  return {guesses.tokens.begin(), guesses.tokens.begin() + guesses.count};
}

/// The tokens in order of `score`, without `drafted`.
template <class Score>
std::vector<TokenId> ranked(std::size_t count, TokenId drafted, Score score) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i)
    if (TokenId(i) != drafted)
      tokens.push_back(TokenId(i));
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](TokenId a, TokenId b) { return score(a) > score(b); });
  tokens.resize(std::min(tokens.size(), std::size_t(limits::guesses_max)));
  return tokens;
}

} // namespace

TEST_CASE("guesses are the draft's likeliest others, in order") {
  Guessing guessing;
  for (const std::size_t count : {2u, 5u, 9u, 200u, 5000u})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto logits = random_logits(seed, count);
      const auto drafted = TokenId(seed % count);
      CHECK(all_of(guessing.of(logits, drafted)) ==
            ranked(count, drafted, [&](TokenId t) { return logits[std::size_t(t)]; }));
    }
}

TEST_CASE("guesses go by bias and penalties, and never name what is impossible") {
  Guessing guessing;
  const std::vector<float> logits{5, 4, 3, -infinity, 2};
  guessing.warping.logit_bias = {{2, 3.0f}, {1, -infinity}};
  CHECK(all_of(guessing.of(logits, 0)) == std::vector<TokenId>{2, 4});
  const std::vector<TokenId> committed{7, 2};
  guessing.history = {committed, 1, {}};
  guessing.warping.presence_penalty = 2;
  guessing.warping.frequency_penalty = 2;
  CHECK(all_of(guessing.of(logits, 0)) == std::vector<TokenId>{2, 4}); // 6 - 4 is 2, too: by id
}

TEST_CASE("with coupled noise guesses are the runners-up of the draft's own race") {
  Guessing guessing;
  guessing.rule = Rule::coupled;
  guessing.warping.temperature = 0.7f;
  int first = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    guessing.noise.seed = seed;
    const auto logits = random_logits(seed, 40);
    const auto score = [&](TokenId t) {
      return double(logits[std::size_t(t)]) / double(guessing.warping.temperature) -
             std::log(exponential(guessing.noise.key(5, Purpose::coupled), std::uint32_t(t)));
    };
    const TokenId winner = ranked(40, -1, score).front();
    WarpScratch scratch;
    std::vector<float> q(40);
    REQUIRE(warp(logits, 40, guessing.warping, {}, scratch, q));
    CHECK(winner == propose(Rule::coupled, q, guessing.noise, 5, 0));
    CHECK(all_of(guessing.of(logits, winner)) == ranked(40, winner, score));
    first += guessing.of(logits, winner).tokens[0] ==
             ranked(40, winner, [&](TokenId t) { return logits[std::size_t(t)]; }).front();
  }
  CHECK(first < 45); // not what the logits alone would say
}

TEST_CASE("the margin is how far the drafted token is ahead of the first guess, as it is drawn") {
  Guessing guessing;
  guessing.warping.temperature = 0.5f;
  const std::vector<float> logits{5, 4, 3, -infinity, 2};
  CHECK(guessing.of(logits, 0).margin == doctest::Approx(2));
  CHECK(guessing.of(logits, 2).margin == doctest::Approx(-4));
  guessing.warping.temperature = 0; // greedy: the logits as they are
  CHECK(guessing.of(logits, 0).margin == doctest::Approx(1));
  guessing.warping.logit_bias = {{1, -infinity}, {2, -infinity}, {4, -infinity}};
  CHECK(guessing.of(logits, 0).margin == infinity); // nothing else can come
  guessing.rule = Rule::coupled;
  guessing.warping = {.temperature = 1, .logit_bias = {}};
  for (std::uint64_t seed = 0; seed < 50; ++seed) { // the winner of a race is ahead
    guessing.noise.seed = seed;
    const auto race = random_logits(seed, 40);
    WarpScratch scratch;
    std::vector<float> q(40);
    REQUIRE(warp(race, 40, guessing.warping, {}, scratch, q));
    CHECK(guessing.of(race, propose(Rule::coupled, q, guessing.noise, 5, 0)).margin > 0);
  }
}

TEST_CASE("every margin has a class, and edges belong to the one above") {
  for (std::size_t i = 0; i < margin_edges.size(); ++i) {
    CHECK(margin_class(margin_edges[i]) == i + 1);
    CHECK(margin_class(std::nextafter(margin_edges[i], -infinity)) == i);
  }
  CHECK(margin_class(-infinity) == 0);
  CHECK(margin_class(infinity) == margin_classes - 1);
}

TEST_CASE("chances of outcomes add up, and more rows cover more of them") {
  Odds odds;
  odds.acceptance = 0.8;
  double sum = 0;
  for (int rank = 0; rank < limits::guesses_max; ++rank)
    sum += odds.guess[std::size_t(rank)];
  CHECK(sum < 1);
  CHECK(odds.hit(4, 0) == doctest::Approx(std::pow(0.8, 5)));
  CHECK(odds.hit(4, 1) == doctest::Approx(std::pow(0.8, 5) + 0.2 * odds.guess[0]));
  const int all = 5 * limits::guesses_max;
  // Rejected at 0 to 4 accepted tokens and guessed, or all accepted, the lookahead's first too.
  CHECK(odds.hit(4, all) == doctest::Approx(std::pow(0.8, 5) + (1 - std::pow(0.8, 5)) * sum));
  for (int rows = 0; rows < all; ++rows)
    CHECK(odds.hit(4, rows) < odds.hit(4, rows + 1));
}

TEST_CASE("rows beside a window bring what docs/theory.md says, the likeliest most") {
  Odds odds;
  odds.acceptance = 0.6;
  const std::vector<double> gains = odds.tree_gains(5, 200, true);
  CHECK(gains[0] == 0);
  CHECK(gains[1] == doctest::Approx(0.4 * odds.guess[0]));
  CHECK(gains[2] - gains[1] == doctest::Approx(0.6 * 0.4 * odds.guess[0])); // at 1, or behind it
  CHECK(gains[8] == doctest::Approx(0.444).epsilon(0.001));
  CHECK(gains[16] == doctest::Approx(0.631).epsilon(0.001));
  CHECK(gains[48] == doctest::Approx(0.968).epsilon(0.001));
  double all = 0; // each rejected position's guesses, and what stands behind them
  for (int position = 0; position < 5; ++position)
    for (int behind = 0; behind < 5 - position; ++behind)
      for (const double guess : odds.guess)
        all += std::pow(0.6, position + behind) * 0.4 * guess;
  CHECK(gains[200] == doctest::Approx(all));
  CHECK(odds.tree_gains(5, 200, false)[200] < gains[200]);
}
