// What came of the checks, for people and for programs.
#pragma once

#include "apps/laboratory/conformance/suite.hpp"

#include <boost/json/object.hpp>

namespace paceline::apps::conformance {

/// Returns a line for each check, and below it, where it did not pass, its evidence and command.
std::string report_text(const Subject& subject, const std::vector<Outcome>& outcomes);
/// Returns an object with the keys of docs/conformance.md.
boost::json::object report_json(const Subject& subject, const std::vector<Outcome>& outcomes);
/// Returns JUnit's XML, which continuous integration reads: a suite for each group; what is not
/// supported or not decidable is skipped.
std::string report_junit(const std::vector<Outcome>& outcomes);

} // namespace paceline::apps::conformance
