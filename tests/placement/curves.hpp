// Attainment over something that varies, as a picture: panels side by side, a line for each policy.
#pragma once

#include "placement/estimate.hpp"

#include <string>
#include <vector>

namespace paceline::testing {

struct Panel {
  std::string what;                                            ///< That varies.
  std::vector<double> values;                                  ///< Growing.
  std::vector<std::vector<placement::Estimate>> attainments{}; ///< By value, then by line.
};

/// An SVG. Intervals are shaded.
std::string draw_curves(const std::string& title, const std::vector<std::string>& lines,
                        const std::vector<Panel>& panels);

} // namespace paceline::testing
