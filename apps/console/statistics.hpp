// Statistics of repeated measurements.
#pragma once

#include <vector>

namespace paceline::apps {

/// Returns the middle value (the mean of the two middle ones); 0 for none.
double median(std::vector<double> values);
/// Returns (largest - smallest) / median; 0 for fewer than two.
double spread(const std::vector<double>& values);
/// Returns a / b; 0 if there is nothing to divide by.
inline double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

} // namespace paceline::apps
