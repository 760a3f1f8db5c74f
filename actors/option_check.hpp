// Whether an engine can be opened with these options at all.
#pragma once

#include "paceline/engine.hpp"
#include "paceline/error.hpp"

namespace paceline::actors {

/// Ranges, and what excludes each other, before anything is loaded. Errors name the field.
Result<void> check_options(const EngineOptions& options);

} // namespace paceline::actors
