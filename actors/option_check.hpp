// The meaning of options, and whether an engine can be opened with them.
#pragma once

#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::actors {

/// Checks ranges, and options that exclude each other, before anything is loaded. Errors name the
/// field.
Result<void> check_options(const EngineOptions& options);

/// Returns the last of EngineOptions::devices that is not a node's.
std::string last_own_device(const EngineOptions& options);

/// Whether anything drafts on a node.
bool drafts_on_node(const EngineOptions& options);

/// Whether a draft or a stage is a node's.
bool needs_other_machines(const EngineOptions& options);

/// Returns the names in EngineOptions::drafters, with "auto" and "none" resolved; a model stands
/// behind a look-up.
std::vector<std::string> drafter_names(const EngineOptions& options);

/// Returns the model among them or, if there is none, the look-up; empty: nothing drafts.
std::string draft_name(const EngineOptions& options);

} // namespace paceline::actors
