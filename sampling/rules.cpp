#include "sampling/rules.hpp"

#include "sampling/gumbel_max.hpp"
#include "sampling/row_kernels.hpp"
#include "sampling/rules_core.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace paceline::sampling {
namespace {

struct PlainRow {
  std::span<const float> p;
  float weight(std::size_t i) const { return p[i]; }
  double sum(std::size_t first, std::size_t count) const {
    return row::sum(p.subspan(first, count));
  }
};

struct SparseRow {
  std::span<const TokenWeight> q;
  float weight(std::size_t i) const { return q[i].weight; }
  double sum(std::size_t first, std::size_t count) const {
    double sum = 0;
    for (const TokenWeight& token : q.subspan(first, count))
      sum += double(token.weight);
    return sum;
  }
};

struct ResidualRow {
  std::span<const float> p;
  std::span<const float> q;
  float weight(std::size_t i) const { return residual(p[i], q[i]); }
  double sum(std::size_t first, std::size_t count) const {
    return row::residual_sum(p.subspan(first, count), q.subspan(first, count));
  }
};

} // namespace

Rule resolve(VerifyRule rule, bool seed_given) {
  if (rule != VerifyRule::automatic)
    return rule;
  return seed_given ? Rule::coupled : Rule::rejection;
}

TokenId draw(std::span<const float> probabilities, const DrawKey& key) {
  return invert(PlainRow{probabilities}, probabilities.size(), uniform(key));
}

TokenId draw_coupled(std::span<const float> probabilities, const DrawKey& key) {
  return row::draw_gumbel_max(probabilities, key);
}

TokenId propose(Rule rule, std::span<const float> q, const Noise& noise, std::uint32_t position,
                std::uint32_t attempt) {
  assert(rule != Rule::automatic);
  if (rule == Rule::coupled)
    return draw_coupled(q, noise.key(position, Purpose::coupled));
  return draw(q, noise.key(position, Purpose::draft, attempt));
}

TokenId propose(Rule rule, std::span<const TokenWeight> q, const Noise& noise,
                std::uint32_t position, std::uint32_t attempt) {
  assert(rule != Rule::automatic && !q.empty());
  if (rule != Rule::coupled) {
    const DrawKey key = noise.key(position, Purpose::draft, attempt);
    return q[std::size_t(invert(SparseRow{q}, q.size(), uniform(key)))].token;
  }
  const DrawKey key = noise.key(position, Purpose::coupled);
  const auto score = [&](const TokenWeight& of) {
    return of.weight > 0 ? gumbel_score(key, std::uint32_t(of.token), of.weight)
                         : std::numeric_limits<double>::infinity();
  };
  return std::ranges::min_element(q, {}, score)->token;
}

// A draft that lies may show a row that is no distribution; NaN fails both comparisons.
bool is_draw(TokenId token, Rule rule, std::span<const float> q, const Noise& noise,
             std::uint32_t position, std::uint32_t attempt) {
  double sum = 0;
  bool possible = true;
  for (const float x : q) {
    sum += double(x);
    possible &= x >= 0;
  }
  return possible && std::abs(sum - 1) < 1e-3 &&
         token == propose(rule, q, noise, position, attempt);
}

TokenId follow(Rule rule, std::span<const float> p, const Noise& noise, std::uint32_t position) {
  assert(rule != Rule::automatic);
  if (rule == Rule::coupled)
    return draw_coupled(p, noise.key(position, Purpose::coupled));
  return draw(p, noise.key(position, Purpose::target));
}

namespace {

Judgement judge_rejection(std::span<const float> p, std::span<const float> q, TokenId token,
                          const Noise& noise, std::uint32_t position) {
  const DrawKey key = noise.key(position, Purpose::residual);
  const auto t = std::size_t(token);
  if (token < 0 || t >= p.size())
    return {false, draw(p, key)}; // The token is not one that q could have drawn.
  assert(q.size() == p.size());
  if (accepts(uniform(noise.key(position, Purpose::accept)), p[t], q[t]))
    return {true, token};
  const TokenId instead = invert(ResidualRow{p, q}, p.size(), uniform(key));
  return {false, instead >= 0 ? instead : draw(p, key)};
}

} // namespace

Judgement judge(Rule rule, std::span<const float> p, std::span<const float> q, TokenId token,
                const Noise& noise, std::uint32_t position) {
  if (rule == Rule::rejection)
    return judge_rejection(p, q, token, noise, position);
  const TokenId own = follow(rule, p, noise, position);
  return {own == token, own};
}

} // namespace paceline::sampling
