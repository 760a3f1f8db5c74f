#include "sampling/warp.hpp"
#include "tests/sampling/infinity.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::sampling;
using paceline::testing::infinity;

TEST_CASE("Log-probabilities of a row are those of its softmax, padding left out") {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(3000);
  for (float& x : logits)
    x = normal(random);
  const int vocabulary = 2900;
  logits[2950] = 1000; // padding must not count
  const double highest = *std::max_element(logits.begin(), logits.begin() + vocabulary);
  double total = 0;
  for (int i = 0; i < vocabulary; ++i)
    total += std::exp(double(logits[std::size_t(i)]) - highest);

  const auto out = logprob_of(logits, vocabulary, 17, 20);
  CHECK(out.token == 17);
  CHECK(out.logprob ==
        doctest::Approx(double(logits[17]) - highest - std::log(total)).epsilon(1e-6));
  REQUIRE(out.top.size() == 20);
  std::vector<TokenId> order(static_cast<std::size_t>(vocabulary));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[std::size_t(a)] > logits[std::size_t(b)];
  });
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(out.top[i].first == order[i]);
    const double x = double(logits[std::size_t(order[i])]);
    CHECK(out.top[i].second == doctest::Approx(x - highest - std::log(total)).epsilon(1e-6));
  }
  CHECK(logprob_of(logits, vocabulary, 2950, 0).logprob == -infinity);
  CHECK(logprob_of(logits, vocabulary, -1, 0).logprob == -infinity);
}

TEST_CASE("Equal tokens are listed by id, and impossible ones are not listed") {
  const std::vector<float> logits{1, 3, 3, -infinity, 1, 3};
  const auto out = logprob_of(logits, 6, 3, 6);
  CHECK(out.logprob == -infinity);
  std::vector<TokenId> ids;
  for (const auto& entry : out.top)
    ids.push_back(entry.first);
  CHECK(ids == std::vector<TokenId>{1, 2, 5, 0, 4});
}

TEST_CASE("Processed log-probabilities are logarithms of the warped row") {
  const std::vector<float> p{0.25f, 0, 0.5f, 0.25f};
  const auto out = logprob_of_warped(p, 3, 3);
  CHECK(out.logprob == doctest::Approx(std::log(0.25)));
  REQUIRE(out.top.size() == 3);
  CHECK(out.top[0] == std::pair<TokenId, float>(2, std::log(0.5f)));
  CHECK(out.top[1].first == 0);
  CHECK(out.top[2].first == 3);
  CHECK(logprob_of_warped(p, 1, 0).logprob == -infinity);
  CHECK(logprob_of_warped(p, 1, 4).top.size() == 3);
}
