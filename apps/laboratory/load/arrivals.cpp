#include "apps/laboratory/load/arrivals.hpp"

#include "apps/laboratory/load/random.hpp"

#include <boost/random/gamma_distribution.hpp>
#include <cmath>
#include <numeric>

namespace paceline::apps::load {

std::vector<double> draw_gaps(std::size_t count, double rate, double burstiness,
                              std::uint64_t seed) {
  auto random = random_numbers(seed, Draws::gaps);
  boost::random::gamma_distribution<double> gap(burstiness, 1 / (rate * burstiness));
  std::vector<double> gaps(count);
  for (double& one : gaps)
    one = gap(random);
  return gaps;
}

std::vector<double> draw_arrivals(std::size_t count, double rate, double burstiness,
                                  std::uint64_t seed) {
  if (std::isinf(rate))
    return std::vector<double>(count, 0);
  std::vector<double> arrivals = draw_gaps(count, rate, burstiness, seed);
  std::partial_sum(arrivals.begin(), arrivals.end(), arrivals.begin());
  stretch(arrivals, rate);
  return arrivals;
}

void stretch(std::vector<double>& arrivals, double rate) {
  if (arrivals.empty() || arrivals.back() <= 0)
    return;
  const double factor = double(arrivals.size()) / rate / arrivals.back();
  for (double& arrival : arrivals)
    arrival *= factor;
}

} // namespace paceline::apps::load
