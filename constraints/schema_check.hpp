// The part of JSON Schema that an answer can be held to: the rest is refused by name, not ignored.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>

namespace paceline::constraints {

/// Refuses a keyword that is unknown here, or that would not count where it stands. Errors:
/// unsupported.
Result<void> check_schema(const boost::json::object& schema);

} // namespace paceline::constraints
