// JSON as people write it, in contrast to Boost's.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace paceline::apps {

/// Returns the value on one line. Numbers that are no integers keep a fraction, with the fewest
/// digits that read back as the same number, and an exponent only if that is shorter: 12.3 and
/// 12.0, where Boost writes 1.23E1 and 1.2E1. A number that JSON does not have (infinity) is null.
std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& object);

} // namespace paceline::apps
