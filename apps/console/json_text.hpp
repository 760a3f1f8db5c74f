// JSON as people write it.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace paceline::apps {

/// On one line. Numbers that are no integers keep a fraction, as few digits as give them again, and
/// an exponent only where it is shorter: 12.3 and 12.0, where Boost writes 1.23E1 and 1.2E1. What
/// is no number in JSON (infinity) is null.
std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& object);

} // namespace paceline::apps
