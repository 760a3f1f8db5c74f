// `--compare`: this run's figures beside an earlier run's.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps {

/// A file that `bench --json` wrote.
Result<boost::json::object> read_report(const std::string& path);

/// {"modes.off.tokens_per_second": now / before, ...} for every figure that both reports have.
boost::json::object compare_reports(const boost::json::object& before,
                                    const boost::json::object& now);
/// Whether the look-ups of both, if any, had seen the same.
bool same_lookups(const boost::json::object& before, const boost::json::object& now);
/// The same for people: before, now and the ratio; and a remark where look-ups had not seen the
/// same.
std::string comparison_text(const boost::json::object& before, const boost::json::object& now);

} // namespace paceline::apps
