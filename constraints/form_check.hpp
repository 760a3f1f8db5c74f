// The checks that refuse a form before anything is compiled, for compiling cannot be interrupted.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

namespace paceline::constraints {

/// Checks sizes, depths and counts against limits.hpp's bounds; a schema and a structural tag must
/// be objects.
Result<void> check_form(const Constraint& form);

} // namespace paceline::constraints
