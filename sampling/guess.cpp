#include "sampling/guess.hpp"

#include "sampling/rules_core.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace paceline::sampling {
namespace {

/// With noise, a token this far down by its logit alone may still come first.
constexpr std::size_t contenders = 64;

} // namespace

Guesses guess(std::span<const float> logits, int vocabulary, const Warping& warping,
              const History& history, Rule rule, const Noise& noise, std::uint32_t position,
              TokenId drafted, WarpScratch& scratch) {
  const auto row = adjusted(logits, vocabulary, warping, history, scratch);
  const bool noisy = rule == Rule::coupled && !warping.greedy();
  const std::size_t wanted = noisy ? contenders : std::size_t(limits::guesses_max) + 1;
  Candidates& kept = scratch.candidates;
  if (wanted < row.size()) {
    keep_top_k(row, wanted, kept);
  } else {
    kept.count = row.size();
    kept.values.assign(row.begin(), row.end());
    kept.ids.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      kept.ids[i] = std::uint32_t(i);
  }
  struct Contender {
    double score;
    TokenId token;
  };
  std::vector<Contender> order;
  for (std::size_t i = 0; i < kept.count; ++i) {
    const auto token = TokenId(kept.ids[i]);
    double score = double(kept.values[i]);
    if (token == drafted || !(score > -std::numeric_limits<double>::infinity()))
      continue;
    if (noisy)
      score = score / double(warping.temperature) -
              std::log(exponential(noise.key(position, Purpose::coupled), std::uint32_t(token)));
    order.push_back({score, token});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Contender& a, const Contender& b) { return a.score > b.score; });
  Guesses guesses;
  guesses.count = int(std::min(order.size(), guesses.tokens.size()));
  for (int i = 0; i < guesses.count; ++i)
    guesses.tokens[std::size_t(i)] = order[std::size_t(i)].token;
  return guesses;
}

double Odds::outcome(int accepted, int rank) const {
  return std::pow(acceptance, accepted) * (1 - acceptance) * guess[std::size_t(rank)];
}

double Odds::hit(int window, int rows) const {
  std::vector<double> outcomes;
  for (int accepted = 0; accepted <= window; ++accepted)
    for (int rank = 0; rank < limits::guesses_max; ++rank)
      outcomes.push_back(outcome(accepted, rank));
  const auto covered = std::min(std::size_t(std::max(rows, 0)), outcomes.size());
  std::partial_sort(outcomes.begin(), outcomes.begin() + std::ptrdiff_t(covered), outcomes.end(),
                    std::greater<>());
  double sum = std::pow(acceptance, window + 1);
  for (std::size_t i = 0; i < covered; ++i)
    sum += outcomes[i];
  return sum;
}

} // namespace paceline::sampling
