// The small model that usually drafts for a family's larger ones.
#pragma once

#include "models/config.hpp"

#include <optional>
#include <string>

namespace paceline::apps::pull {

/// Returns the hub's id of a model of the same vocabulary that is a fraction of the target's size.
/// name: the target's, which tells families apart that share an architecture. None: the table has
/// none, or the target brings a block that drafts, or is too small itself to gain by one.
std::optional<std::string> usual_draft(const models::ModelConfig& target, const std::string& name);

} // namespace paceline::apps::pull
