#include "apps/console/statistics.hpp"

#include <algorithm>

namespace paceline::apps {

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double spread(const std::vector<double>& values) {
  const double center = median(values);
  if (values.size() < 2 || center == 0)
    return 0;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return (*high - *low) / center;
}

} // namespace paceline::apps
