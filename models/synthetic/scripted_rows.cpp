#include "models/synthetic/scripted_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace paceline::models {
namespace {

/// Returns a number, uniform in [0, 1), for each (context, token, purpose).
double uniform(std::uint64_t context, int token, std::uint64_t purpose) {
  return double(mix(context ^ mix(std::uint64_t(token) * 4 + purpose)) >> 11) * 0x1p-53;
}

enum Purpose : std::uint64_t { weight, order, share, gain };

/// Makes the target's row: weights are spread over e^3; an eighth of the tokens (one at least, if
/// there are four or more) is impossible, so that a draft can propose what the target never says.
std::vector<double> target_row(const ScriptedOptions& options, std::uint64_t context) {
  const int n = options.vocabulary;
  std::vector<double> p(std::size_t(n), 0.0);
  const int impossible = n >= 4 ? std::max(1, n / 8) : 0;
  const int first = int(context % std::uint64_t(n));
  for (int i = 0; i < n - impossible; ++i)
    p[std::size_t((first + i) % n)] = std::exp(3 * uniform(context, i, weight));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p)
    x *= (options.peaked ? 0.4 : 1.0) / sum;
  if (options.peaked)
    p[std::size_t(first)] += 0.6;
  return p;
}

/// How often the token of rank i is drawn in place of a rejected first token (ScriptedOptions).
constexpr std::array ranked_shares{0.28, 0.12, 0.055, 0.055, 0.025, 0.025, 0.025, 0.025};
constexpr double first_share = 0.15;

/// Makes rows of the `ranked` kind, for target and draft alike: one token has first_share plus what
/// the others lack, so that only it is ever rejected, and the residual is the others' shares. The
/// context decides which tokens are first, second, ...
std::vector<double> ranked_row(const ScriptedOptions& options, std::uint64_t context) {
  const int n = options.vocabulary;
  const double first = first_share + (1 - options.acceptance);
  const int rest = n - 1 - int(ranked_shares.size());
  const double others = 1 - std::accumulate(ranked_shares.begin(), ranked_shares.end(), 0.0);
  std::vector<double> row(std::size_t(n), 0.0);
  for (int rank = 0; rank < n; ++rank) {
    const double share = rank == 0                           ? 0
                         : rank <= int(ranked_shares.size()) ? ranked_shares[std::size_t(rank - 1)]
                                                             : others / rest;
    row[std::size_t((context + std::uint64_t(rank)) % std::uint64_t(n))] =
        rank == 0 ? first : (1 - first) * share;
  }
  return row;
}

/// Takes `mass` away from p, token after token in an order of the context's own: some tokens lose
/// all they have (then p > 0, q = 0), some a part. Returns which tokens lost mass.
std::vector<bool> take_mass(std::vector<double>& p, double mass, std::uint64_t context) {
  std::vector<int> tokens(p.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::sort(tokens.begin(), tokens.end(),
            [&](int a, int b) { return uniform(context, a, order) < uniform(context, b, order); });
  std::vector<bool> lost(p.size(), false);
  for (const bool whole : {false, true}) {
    for (const int t : tokens) {
      double& x = p[std::size_t(t)];
      const bool all = whole || uniform(context, t, share) < 0.5;
      const double taken = std::min(mass, all ? x : 0.5 * x);
      if (taken <= 0)
        continue;
      x -= taken;
      mass -= taken;
      lost[std::size_t(t)] = true;
    }
  }
  return lost;
}

/// Makes the draft's row: the mass that `take_mass` took goes to tokens that lost nothing, the
/// target's impossible ones among them; hence the sum of min(p, q) is exactly what p kept.
std::vector<double> draft_row(const ScriptedOptions& options, std::uint64_t context) {
  std::vector<double> q = target_row(options, context);
  const std::vector<double> p = q;
  const std::vector<bool> lost = take_mass(q, 1 - options.acceptance, context);
  std::vector<double> gains(q.size(), 0.0);
  for (std::size_t i = 0; i < q.size(); ++i)
    if (!lost[i])
      gains[i] = (p[i] > 0 ? 0.05 : 0.01) + std::pow(uniform(context, int(i), gain), 4);
  const double sum = std::accumulate(gains.begin(), gains.end(), 0.0);
  for (std::size_t i = 0; i < q.size(); ++i)
    q[i] += gains[i] * (1 - options.acceptance) / sum;
  return q;
}

} // namespace

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t hash_context(const ScriptedOptions& options, std::span<const TokenId> context) {
  const auto used = std::min(context.size(), std::size_t(options.memory));
  std::uint64_t h = mix(options.seed ^ mix(used));
  for (const TokenId token : context.last(used))
    h = mix(h ^ std::uint32_t(token));
  return h;
}

std::vector<double> row_of(const ScriptedOptions& options, std::uint64_t context) {
  if (options.ranked)
    return ranked_row(options, context);
  return options.acceptance < 1 ? draft_row(options, context) : target_row(options, context);
}

std::vector<double> scripted_row(const ScriptedOptions& options, std::span<const TokenId> context) {
  return row_of(options, hash_context(options, context));
}

} // namespace paceline::models
