// Reports on a comparison of formats of weights, for people and for programs.
#pragma once

#include "apps/laboratory/score/comparison.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace paceline::apps {

/// Returns an object with the keys of docs/program.md. tokens: length of the text.
boost::json::object comparison_json(const WeightComparison& comparison,
                                    const std::vector<WeightFigures>& figures, std::size_t tokens);
std::string comparison_text(const WeightComparison& comparison,
                            const std::vector<WeightFigures>& figures, std::size_t tokens);

} // namespace paceline::apps
