#include "apps/laboratory/conformance/draws.hpp"

#include "apps/laboratory/conformance/check.hpp"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace paceline::apps::conformance {
namespace {

/// Log-probabilities below this stand for impossible tokens: -infinity is no JSON.
constexpr double impossible_logprob = -900;
/// A cut this near to a token's place, as a share of probability, may fall on either side of it.
constexpr double rounding = 2e-3;
constexpr std::string_view replacement = "\xEF\xBF\xBD"; // What is no character is shown as this.

/// Scales weights to a distribution, and makes it conditional on the cells unless `rest` is given.
Expected scaled(const CleanList& list, std::size_t count, double temperature,
                std::optional<double> rest) {
  Expected expected{.cells = {}, .rest = rest};
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    expected.cells.emplace_back(list.top[i].first,
                                std::exp((list.top[i].second - list.top[0].second) / temperature));
    sum += expected.cells.back().second;
  }
  for (auto& [name, p] : expected.cells)
    p *= (1 - rest.value_or(0)) / sum;
  return expected;
}

double total(const CleanList& list) {
  return std::accumulate(list.top.begin(), list.top.end(), 0.0,
                         [](double sum, const auto& one) { return sum + std::exp(one.second); });
}

/// Whether the order of two neighbours in the list is certain.
bool apart(const CleanList& list, std::size_t first) {
  return list.top[first].second - list.top[first + 1].second > rounding;
}

} // namespace

CleanList clean_list(const Scored& scored, int top) {
  CleanList list;
  const std::size_t most = std::min(scored.top.size(), std::size_t(top));
  std::multiset<std::string_view> names;
  for (std::size_t i = 0; i < most; ++i)
    names.insert(scored.top[i].first);
  for (std::size_t i = 0; i < most; ++i) {
    const auto& [name, logprob] = scored.top[i];
    if (logprob < impossible_logprob)
      continue;
    if (names.count(name) == 1 && name.find(replacement) == std::string::npos)
      list.top.emplace_back(name, logprob);
    else
      list.named = false;
  }
  return list;
}

std::optional<Expected> at_temperature(const CleanList& list, double temperature) {
  if (list.top.size() < 2)
    return std::nullopt;
  std::optional<double> rest;
  if (temperature == 1 && list.named)
    if (const double left = 1 - total(list); left > rounding)
      rest = left;
  return scaled(list, list.top.size(), temperature, rest);
}

std::optional<Expected> at_top_p(const CleanList& list, double top_p) {
  double sum = 0;
  for (std::size_t i = 0; list.named && i + 1 < list.top.size(); ++i) {
    sum += std::exp(list.top[i].second);
    if (std::abs(sum - top_p) < rounding)
      return std::nullopt;
    if (sum > top_p)
      return apart(list, i) ? std::optional(scaled(list, i + 1, 1, 0.0)) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Expected> at_top_k(const CleanList& list, int top_k) {
  const auto count = std::size_t(top_k);
  if (!list.named || list.top.size() <= count || !apart(list, count - 1))
    return std::nullopt;
  return scaled(list, count, 1, 0.0);
}

std::optional<Expected> at_min_p(const CleanList& list, double min_p) {
  if (!list.named)
    return std::nullopt;
  for (std::size_t i = 1; i < list.top.size(); ++i) {
    const double ratio = std::exp(list.top[i].second - list.top[0].second);
    if (std::abs(ratio - min_p) < rounding)
      return std::nullopt;
    if (ratio < min_p)
      return scaled(list, i, 1, 0.0);
  }
  return std::nullopt;
}

bool Transforms::add(const Expected& expected, const std::string& drawn) {
  double before = 0;
  auto cell = expected.cells.begin();
  for (; cell != expected.cells.end() && cell->first != drawn; ++cell)
    before += cell->second;
  double p = 0;
  if (cell != expected.cells.end())
    p = cell->second;
  else if (!expected.rest)
    return true; // What the cells are conditional on is not the case.
  else
    p = *expected.rest;
  if (p == 0) {
    ++impossible_;
    return false;
  }
  const double place = before + p * std::generate_canonical<double, 53>(random_);
  ++counts_[std::size_t(std::clamp(int(place * cells), 0, cells - 1))];
  ++draws_;
  const double likeliest = expected.cells.front().second;
  const double up = std::log(1 - bias + bias / likeliest); // Odds by a token that is the likeliest,
  const double down = std::log(1 - bias);                  // and by any other.
  const double biased = (1 - bias) * likeliest + bias;
  log_odds_ += cell == expected.cells.begin() ? up : down;
  mean_ += biased * up + (1 - biased) * down;
  variance_ += biased * (1 - biased) * (up - down) * (up - down);
  return true;
}

bool Transforms::wrong() const {
  return p_value() < false_alarm || log_odds_ > -std::log(false_alarm);
}

double Transforms::p_value() const {
  return impossible_ > 0 ? 0 : chi_square().p_value;
}

sampling::ChiSquare Transforms::chi_square() const {
  const std::vector<double> even(cells, 1.0 / cells);
  return sampling::chi_square(even, counts_);
}

double Transforms::power(double draws) const {
  if (!(variance_ > 0))
    return 0;
  const double share = draws / draws_;
  const double above = mean_ * share + std::log(false_alarm);
  return std::erfc(-above / std::sqrt(2 * variance_ * share)) / 2; // By the central limit theorem.
}

double Transforms::draws_for(double wanted) const {
  if (!(variance_ > 0))
    return INFINITY;
  double draws = 16;
  while (power(draws) < wanted)
    draws *= 1.1;
  return draws;
}

std::string Transforms::text() const {
  return fmt::format(
      "{} draws, chi-square {:.1f} of {} cells (p = {:.2g}); a bias of {:.0f} %, for "
      "which the odds are {:.2g}, would be seen with probability {:.2f}",
      draws_, chi_square().statistic, cells, p_value(), 100 * bias, std::exp(log_odds_), power());
}

} // namespace paceline::apps::conformance
