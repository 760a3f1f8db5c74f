// The warpers written down from their definitions: sorts, double precision, no short cuts.
#pragma once

#include "sampling/warp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace paceline::testing {

using sampling::History;
using sampling::Warping;

struct ReferenceRow {
  std::vector<double> p;
  /// How far the closest decision (of top-p or min-p) was from going the other way.
  double margin = 1;
};

inline std::vector<float> adjusted_logits(std::vector<float> x, const Warping& warping,
                                          const History& history) {
  const auto inside = [&](TokenId t) { return t >= 0 && std::size_t(t) < x.size(); };
  for (const auto& [token, bias] : warping.logit_bias)
    if (inside(token))
      x[std::size_t(token)] += bias;
  constexpr float none = -std::numeric_limits<float>::infinity();
  for (TokenId t = 0; t < TokenId(x.size()); ++t)
    if (!warping.allowed.empty() && std::ranges::count(warping.allowed, t) == 0)
      x[std::size_t(t)] = none;
  sampling::TokenMask mask;
  const bool constrained = warping.constraint && warping.constraint->next(history, mask);
  for (TokenId t = 0; constrained && t < TokenId(x.size()); ++t)
    if (!sampling::allows(mask, t))
      x[std::size_t(t)] = none;
  const bool whole = constrained && sampling::allows_only(mask, warping.held_back);
  const std::size_t made = history.committed.size() - history.prompt_tokens + history.prefix.size();
  for (TokenId token : warping.held_back)
    if (made < std::size_t(warping.min_tokens) && !whole && inside(token))
      x[std::size_t(token)] = none;
  std::map<TokenId, int> output; // every token seen; how often in the output
  for (std::size_t i = 0; i < history.committed.size(); ++i)
    output[history.committed[i]] += i >= history.prompt_tokens;
  for (TokenId token : history.prefix)
    ++output[token];
  for (const auto& [token, times] : output) {
    if (!inside(token))
      continue;
    float& v = x[std::size_t(token)];
    v = v > 0 ? v / warping.repetition_penalty : v * warping.repetition_penalty;
    if (times > 0)
      v -= warping.presence_penalty + warping.frequency_penalty * float(times);
  }
  return x;
}

inline ReferenceRow reference_warp(const std::vector<float>& logits, int vocabulary,
                                   const Warping& warping, const History& history) {
  const std::vector<float> head(logits.begin(), logits.begin() + vocabulary);
  const auto x = adjusted_logits(head, warping, history);
  ReferenceRow out;
  out.p.resize(logits.size());
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  if (warping.greedy()) {
    out.p[order[0]] = 1;
    return out;
  }
  if (warping.top_k > 0 && std::size_t(warping.top_k) < order.size())
    order.resize(std::size_t(warping.top_k));

  const double highest = double(x[order[0]]);
  std::vector<double> weight;
  for (std::size_t i : order)
    weight.push_back(std::exp((double(x[i]) - highest) / double(warping.temperature)));
  const double goal = double(warping.top_p) * std::accumulate(weight.begin(), weight.end(), 0.0);
  double mass = 0;
  std::size_t keep = 0;
  while (keep < order.size() && (warping.top_p >= 1 || keep == 0 || mass < goal)) {
    mass += weight[keep++];
    if (warping.top_p < 1)
      out.margin = std::min(out.margin, std::abs(mass - goal) / goal);
  }
  double kept = 0;
  for (std::size_t i = 0; i < keep; ++i) {
    if (warping.min_p > 0 && i > 0)
      out.margin = std::min(out.margin, std::abs(weight[i] - double(warping.min_p)));
    if (weight[i] < double(warping.min_p))
      weight[i] = 0;
    kept += weight[i];
  }
  for (std::size_t i = 0; i < keep; ++i)
    out.p[order[i]] = weight[i] / kept;
  return out;
}

} // namespace paceline::testing
