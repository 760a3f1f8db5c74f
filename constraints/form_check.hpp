// What of a form is refused before anything is compiled: compiling cannot be interrupted.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

namespace paceline::constraints {

/// Sizes, depths and counts within limits.hpp's bounds; a schema and a structural tag are objects.
Result<void> check_form(const Constraint& form);

} // namespace paceline::constraints
