// What options mean, and whether an engine can be opened with them at all.
#pragma once

#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::actors {

/// Ranges, and what excludes each other, before anything is loaded. Errors name the field.
Result<void> check_options(const EngineOptions& options);

/// Where the target is: a stage on each. One: as a whole.
std::vector<std::string> devices_of(const EngineOptions& options);

/// The last of them that is not a node's.
std::string last_own_device(const EngineOptions& options);

/// What EngineOptions::draft comes to: a model, "suffix" or "ngram"; empty: nothing drafts.
std::string draft_name(const EngineOptions& options);

} // namespace paceline::actors
