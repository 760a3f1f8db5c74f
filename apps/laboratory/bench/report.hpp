// The output of `paceline bench`.
#pragma once

#include "apps/laboratory/bench/figures.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps {

/// Returns the object of docs/program.md; values that were not measured are left out.
boost::json::object report_json(const BenchReport& report);
/// Returns a text for people.
std::string report_text(const BenchReport& report);

} // namespace paceline::apps
