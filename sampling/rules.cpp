#include "sampling/rules.hpp"

#include "sampling/rules_core.hpp"

#include <cassert>
#include <limits>

namespace paceline::sampling {
namespace {

/// Inversion in id order over weight(0..n-1); -1 when there is no mass.
template <class Weight>
TokenId invert(std::size_t n, double u, Weight weight) {
  double total = 0;
  for (std::size_t i = 0; i < n; ++i)
    total += double(weight(i));
  const double goal = u * total;
  double sum = 0;
  TokenId last = -1;
  for (std::size_t i = 0; i < n; ++i) {
    const float w = weight(i);
    if (!(w > 0))
      continue;
    last = TokenId(i);
    sum += double(w);
    if (sum > goal)
      break;
  }
  return last;
}

} // namespace

Rule resolve(VerifyRule rule, bool seed_given) {
  if (rule != VerifyRule::automatic)
    return rule;
  return seed_given ? Rule::coupled : Rule::rejection;
}

TokenId draw(std::span<const float> probabilities, const DrawKey& key) {
  const TokenId token =
      invert(probabilities.size(), uniform(key), [&](std::size_t i) { return probabilities[i]; });
  assert(token >= 0);
  return token;
}

TokenId draw_coupled(std::span<const float> probabilities, const DrawKey& key) {
  TokenId winner = -1;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (!(probabilities[i] > 0))
      continue;
    const double score = race_score(key, std::uint32_t(i), probabilities[i]);
    if (winner < 0 || score < lowest) {
      winner = TokenId(i);
      lowest = score;
    }
  }
  assert(winner >= 0);
  return winner;
}

TokenId propose(Rule rule, std::span<const float> q, const Noise& noise, std::uint32_t position,
                std::uint32_t attempt) {
  assert(rule != Rule::automatic);
  if (rule == Rule::coupled)
    return draw_coupled(q, noise.key(position, Purpose::coupled));
  return draw(q, noise.key(position, Purpose::draft, attempt));
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
    return {false, draw(p, key)}; // Nothing was proposed that q could have drawn.
  assert(q.size() == p.size());
  if (accepts(uniform(noise.key(position, Purpose::accept)), p[t], q[t]))
    return {true, token};
  const TokenId instead =
      invert(p.size(), uniform(key), [&](std::size_t i) { return residual(p[i], q[i]); });
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
