#include "sampling/guess.hpp"

#include "sampling/rules_core.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace paceline::sampling {
namespace {

/// Number of candidates by logit alone. With noise, even the last of them may come first.
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
  const double scale = warping.greedy() ? 1 : 1 / double(warping.temperature);
  const auto score_of = [&](TokenId token, float logit) {
    const double score = double(logit) * scale;
    return noisy ? score - std::log(exponential(noise.key(position, Purpose::coupled),
                                                std::uint32_t(token)))
                 : score;
  };
  for (std::size_t i = 0; i < kept.count; ++i)
    if (const auto token = TokenId(kept.ids[i]);
        token != drafted && kept.values[i] > -std::numeric_limits<float>::infinity())
      order.push_back({score_of(token, kept.values[i]), token});
  std::stable_sort(order.begin(), order.end(),
                   [](const Contender& a, const Contender& b) { return a.score > b.score; });
  Guesses guesses;
  guesses.count = int(std::min(order.size(), guesses.tokens.size()));
  for (int i = 0; i < guesses.count; ++i)
    guesses.tokens[std::size_t(i)] = order[std::size_t(i)].token;
  if (!order.empty())
    guesses.margin = float(score_of(drafted, row[std::size_t(drafted)]) - order.front().score);
  return guesses;
}

std::size_t margin_class(float margin) {
  return std::size_t(std::ranges::upper_bound(margin_edges, margin) - margin_edges.begin());
}

void JudgedByMargin::add(float margin, bool was_accepted) {
  const std::size_t at = margin_class(margin);
  ++judged[at];
  accepted[at] += was_accepted;
}

void JudgedByMargin::add(const JudgedByMargin& more) {
  for (std::size_t i = 0; i < margin_classes; ++i) {
    judged[i] += more.judged[i];
    accepted[i] += more.accepted[i];
  }
}

double Odds::hit(int window, int rows) const {
  return hits(window, std::max(rows, 0)).back();
}

std::vector<double> Odds::hits(int window, int most) const {
  std::vector<double> outcomes;
  for (int accepted = 0; accepted <= window; ++accepted)
    for (int rank = 0; rank < limits::guesses_max; ++rank)
      outcomes.push_back(std::pow(acceptance, accepted) * (1 - acceptance) *
                         guess[std::size_t(rank)]);
  outcomes.resize(std::max(outcomes.size(), std::size_t(most))); // more rows than outcomes
  std::partial_sort(outcomes.begin(), outcomes.begin() + most, outcomes.end(), std::greater<>());
  std::vector<double> hits{std::pow(acceptance, window + 1)};
  for (int rows = 0; rows < most; ++rows)
    hits.push_back(hits.back() + outcomes[std::size_t(rows)]);
  return hits;
}

std::vector<double> Odds::tree_gains(int window, int most, bool behind) const {
  std::vector<double> chances;
  for (int accepted = 0; accepted < window; ++accepted)
    for (int rank = 0; rank < limits::guesses_max; ++rank)
      for (int depth = 0; depth <= (behind ? window - 1 - accepted : 0); ++depth)
        chances.push_back(std::pow(acceptance, accepted + depth) * (1 - acceptance) *
                          guess[std::size_t(rank)]);
  chances.resize(std::max(chances.size(), std::size_t(most))); // more rows than paths have
  std::partial_sort(chances.begin(), chances.begin() + most, chances.end(), std::greater<>());
  std::vector<double> gains{0};
  for (int rows = 0; rows < most; ++rows)
    gains.push_back(gains.back() + chances[std::size_t(rows)]);
  return gains;
}

} // namespace paceline::sampling
