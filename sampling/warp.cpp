#include "sampling/warp.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace paceline::sampling {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool inside(TokenId token, std::size_t vocabulary) {
  return token >= 0 && std::size_t(token) < vocabulary;
}

void penalise(const Warping& warping, const History& history, WarpScratch& scratch) {
  auto& logits = scratch.logits;
  scratch.counts.assign(logits.size(), 0); // 1 + occurrences in the output
  const auto see = [&](TokenId token, bool output) {
    if (!inside(token, logits.size()))
      return;
    auto& count = scratch.counts[std::size_t(token)];
    count = std::max(count, 1u) + (output ? 1 : 0);
  };
  for (std::size_t i = 0; i < history.committed.size(); ++i)
    see(history.committed[i], i >= history.prompt_tokens);
  for (TokenId token : history.prefix)
    see(token, true);

  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (scratch.counts[i] == 0)
      continue;
    float& x = logits[i];
    x = x > 0 ? x / warping.repetition_penalty : x * warping.repetition_penalty;
    if (const auto outputs = scratch.counts[i] - 1; outputs > 0)
      x -= warping.presence_penalty + warping.frequency_penalty * float(outputs);
  }
}

} // namespace

bool warp(std::span<const float> logits, int vocabulary, const Warping& warping,
          const History& history, WarpScratch& scratch, std::span<float> probabilities) {
  assert(logits.size() == probabilities.size());
  const auto n = std::min(logits.size(), std::size_t(vocabulary));
  auto& row = scratch.logits;
  row.assign(logits.begin(), logits.begin() + std::ptrdiff_t(n));
  for (float& x : row) {
    if (std::isnan(x))
      return false;
    x = std::min(x, std::numeric_limits<float>::max());
  }
  for (const auto& [token, bias] : warping.logit_bias)
    if (inside(token, n))
      row[std::size_t(token)] += bias;
  if (warping.has_penalties())
    penalise(warping, history, scratch);

  const auto best = std::max_element(row.begin(), row.end());
  if (best == row.end() || *best == -infinity)
    return false;
  std::fill(probabilities.begin(), probabilities.end(), 0.0f);
  if (warping.greedy()) {
    probabilities[std::size_t(best - row.begin())] = 1;
    return true;
  }

  std::vector<TokenId> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return row[std::size_t(a)] > row[std::size_t(b)]; });
  if (warping.top_k > 0 && std::size_t(warping.top_k) < n)
    order.resize(std::size_t(warping.top_k));
  const float highest = *best;
  std::vector<float> weights;
  double total = 0;
  for (TokenId token : order) {
    weights.push_back(std::exp((row[std::size_t(token)] - highest) / warping.temperature));
    total += weights.back();
  }
  double mass = 0;
  double kept = 0;
  std::size_t keep = 0;
  for (; keep < order.size() && (keep == 0 || mass < double(warping.top_p) * total); ++keep) {
    mass += weights[keep];
    if (weights[keep] < warping.min_p)
      weights[keep] = 0;
    kept += weights[keep];
  }
  for (std::size_t i = 0; i < keep; ++i)
    probabilities[std::size_t(order[i])] = float(weights[i] / kept);
  return true;
}

namespace {

/// The `top` ids of highest score, likeliest first, lowest id first among equals.
template <class LogOf>
void add_top(TokenLogprob& out, std::span<const float> scores, int top, LogOf log_of) {
  std::vector<TokenId> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(order.size(), std::size_t(std::max(top, 0)));
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(count), order.end(),
                    [&](TokenId a, TokenId b) {
                      const float x = scores[std::size_t(a)];
                      const float y = scores[std::size_t(b)];
                      return x != y ? x > y : a < b;
                    });
  for (std::size_t i = 0; i < count; ++i)
    out.top.emplace_back(order[i], log_of(scores[std::size_t(order[i])]));
}

} // namespace

TokenLogprob logprob_of(std::span<const float> logits, int vocabulary, TokenId token, int top) {
  const auto row = logits.first(std::min(logits.size(), std::size_t(vocabulary)));
  const float highest = *std::max_element(row.begin(), row.end());
  double total = 0;
  for (float x : row)
    total += std::exp(double(x - highest));
  const double normaliser = double(highest) + std::log(total);
  const auto log_of = [&](float x) { return float(double(x) - normaliser); };
  TokenLogprob out{token, -infinity, {}};
  if (inside(token, row.size()))
    out.logprob = log_of(row[std::size_t(token)]);
  add_top(out, row, top, log_of);
  return out;
}

TokenLogprob logprob_of_warped(std::span<const float> probabilities, TokenId token, int top) {
  TokenLogprob out{token, -infinity, {}};
  if (inside(token, probabilities.size()))
    out.logprob = std::log(probabilities[std::size_t(token)]);
  add_top(out, probabilities, top, [](float x) { return std::log(x); });
  std::erase_if(out.top, [](const auto& entry) { return entry.second == -infinity; });
  return out;
}

} // namespace paceline::sampling
