#include "sampling/gumbel_max.hpp"
#include "sampling/rules_core.hpp"
#include "tests/sampling/every_target.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace paceline::sampling;
using paceline::testing::on_every_target;

TEST_CASE(
    "the Gumbel-max draw finds the token with the lowest score, though it scores only a few") {
  const auto slow = [](std::span<const float> p, const DrawKey& key) {
    std::int32_t winner = -1;
    for (std::size_t i = 0; i < p.size(); ++i)
      if (p[i] > 0 &&
          (winner < 0 || gumbel_score(key, std::uint32_t(i), p[i]) <
                             gumbel_score(key, std::uint32_t(winner), p[std::size_t(winner)])))
        winner = std::int32_t(i);
    return winner;
  };
  on_every_target([&] {
    std::mt19937 random(1);
    for (std::size_t n : {1, 2, 3, 7, 16, 17, 63, 64, 65, 130, 1000, 5001}) {
      for (std::uint32_t position = 0; position < 40; ++position) {
        std::vector<float> p(n);
        const int kind = int(random() % 4);
        for (float& v : p) {
          const float u = float(random() % 1000 + 1) / 1000;
          v = kind == 0 ? u : kind == 1 ? std::exp(-40 * u) : random() % 8 == 0 ? u : 0;
        }
        if (kind == 3)
          std::fill(p.begin(), p.end(), 0.0f);
        if (kind == 3 && position % 2 == 0)
          p[random() % n] = 1e-42f;
        const DrawKey key{position, 1, position, 0, Purpose::coupled};
        CHECK(row::draw_gumbel_max(p, key) == slow(p, key));
      }
    }
  });
}
