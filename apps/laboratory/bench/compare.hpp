// The comparison of `--compare`: this run's figures and an earlier run's.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps {

/// Reads a file that `bench --json` wrote.
Result<boost::json::object> read_report(const std::string& path);

/// Returns {"modes.off.tokens_per_second": now / before, ...} for every figure that both reports
/// have.
boost::json::object compare_reports(const boost::json::object& before,
                                    const boost::json::object& now);
/// Whether the look-ups of both reports, if any, had seen the same texts.
bool same_lookups(const boost::json::object& before, const boost::json::object& now);
/// Returns a table for people with before, now and the ratio, and a remark if look-ups had not seen
/// the same texts.
std::string comparison_text(const boost::json::object& before, const boost::json::object& now);

} // namespace paceline::apps
