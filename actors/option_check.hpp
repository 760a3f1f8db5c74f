// What options mean, and whether an engine can be opened with them at all.
#pragma once

#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::actors {

/// Ranges, and what excludes each other, before anything is loaded. Errors name the field.
Result<void> check_options(const EngineOptions& options);

/// The last of EngineOptions::devices that is not a node's.
std::string last_own_device(const EngineOptions& options);

/// Whether a draft or a stage is a node's.
bool needs_other_machines(const EngineOptions& options);

/// What EngineOptions::drafters comes to, "auto" and "none" resolved; a model behind a look-up.
std::vector<std::string> drafter_names(const EngineOptions& options);

/// The model among them or, where there is none, what looks up; empty: nothing drafts.
std::string draft_name(const EngineOptions& options);

} // namespace paceline::actors
