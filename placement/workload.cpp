#include "placement/workload.hpp"

#include "placement/random.hpp"

#include <algorithm>
#include <boost/random/exponential_distribution.hpp>
#include <boost/random/gamma_distribution.hpp>
#include <boost/random/uniform_01.hpp>
#include <cmath>
#include <numeric>

namespace paceline::placement {
namespace {

/// A clock that stands still in periods without requests.
class Periods {
public:
  Periods(const Traffic& traffic, Random random)
      : random_(random), on_(traffic.on_seconds), off_(traffic.off_seconds) {
    if (off_ > 0 && boost::random::uniform_01<double>()(random_) * (on_ + off_) < off_)
      pause();
    if (off_ > 0)
      left_ = exponential(on_);
  }

  /// Returns the time after `seconds` more with requests.
  double advance(double seconds) {
    while (off_ > 0 && seconds >= left_) {
      seconds -= left_;
      now_ += left_;
      pause();
      left_ = exponential(on_);
    }
    left_ -= seconds;
    return now_ += seconds;
  }

private:
  void pause() { now_ += exponential(off_); }
  double exponential(double mean) {
    return boost::random::exponential_distribution<double>(1 / mean)(random_);
  }

  Random random_;
  double on_;
  double off_;
  double now_ = 0;
  double left_ = 0;
};

void draw_arrivals(const Traffic& traffic, int model, std::uint64_t seed, Workload& into) {
  if (traffic.rate <= 0)
    return;
  const auto stream = std::uint32_t(model);
  Random random(seed, Draws::gaps, stream);
  Periods periods(traffic, Random(seed, Draws::periods, stream));
  const double busy_share =
      traffic.off_seconds > 0 ? traffic.on_seconds / (traffic.on_seconds + traffic.off_seconds) : 1;
  const double shape = 1 / (traffic.cv * traffic.cv);
  const double scale = busy_share / (traffic.rate * shape);
  boost::random::gamma_distribution<double> gap(shape, scale);
  // A run begins anywhere in a gap, more likely in a long one: gaps weighted by their length are of
  // the Gamma distribution with one more in its shape.
  double first = boost::random::gamma_distribution<double>(shape + 1, scale)(random);
  first *= boost::random::uniform_01<double>()(random);
  for (double now = periods.advance(first); now < into.seconds; now = periods.advance(gap(random)))
    into.arrivals.push_back({now, model});
}

void sort_by_time(std::vector<Arrival>& arrivals) {
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.seconds < b.seconds; });
}

} // namespace

Workload draw_workload(std::span<const Traffic> traffic, double seconds, std::uint64_t seed) {
  Workload workload{seconds, {}};
  for (std::size_t model = 0; model < traffic.size(); ++model)
    draw_arrivals(traffic[model], int(model), seed, workload);
  sort_by_time(workload.arrivals);
  return workload;
}

std::vector<double> power_law_rates(double total, int n, double exponent) {
  std::vector<double> rates(std::size_t(n), 0.0);
  for (int i = 0; i < n; ++i)
    rates[std::size_t(i)] = std::pow(i + 1, -exponent);
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  for (double& rate : rates)
    rate *= total / sum;
  return rates;
}

std::vector<Workload> split(const Workload& workload, int pieces) {
  const auto& arrivals = workload.arrivals;
  const std::size_t count = std::min(std::size_t(pieces), arrivals.size());
  std::vector<Workload> all(count);
  double begin = 0;
  for (std::size_t piece = 0; piece < count; ++piece) {
    const std::size_t first = arrivals.size() * piece / count;
    const std::size_t behind = arrivals.size() * (piece + 1) / count;
    for (std::size_t i = first; i < behind; ++i)
      all[piece].arrivals.push_back({arrivals[i].seconds - begin, arrivals[i].model});
    const double end = behind < arrivals.size() ? arrivals[behind].seconds : workload.seconds;
    all[piece].seconds = end - begin;
    begin = end;
  }
  return all;
}

Workload only(const Workload& workload, std::span<const int> models) {
  Workload kept{workload.seconds, {}};
  std::vector<int> becomes;
  for (std::size_t i = 0; i < models.size(); ++i) {
    becomes.resize(std::max(becomes.size(), std::size_t(models[i]) + 1), -1);
    becomes[std::size_t(models[i])] = int(i);
  }
  for (const auto& [seconds, model] : workload.arrivals)
    if (std::size_t(model) < becomes.size() && becomes[std::size_t(model)] >= 0)
      kept.arrivals.push_back({seconds, becomes[std::size_t(model)]});
  return kept;
}

} // namespace paceline::placement
