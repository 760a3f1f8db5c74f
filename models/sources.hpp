// Which source a model's name leads to.
#pragma once

#include "models/checkpoint/source.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace paceline::models {

/// "scripted:..." is its own place; any other name leads to a folder or a file
/// (checkpoint/paths.hpp).
Result<std::string> resolve_model_path(const std::string& name, const std::string& role);

/// What is at a location that resolve_model_path gave.
Result<std::shared_ptr<const CheckpointSource>> checkpoint_at(const std::string& location);

/// What a name leads to, as the model of `role`.
Result<std::shared_ptr<const CheckpointSource>> open_checkpoint(const std::string& name,
                                                                const std::string& role);

/// Whether EngineOptions::drafters is "self:FORMAT": the target itself, in that format, drafts.
bool is_self_draft(std::string_view name);
/// Of a name that is. Errors: there is no such format.
Result<WeightFormat> self_draft_format(std::string_view name);

} // namespace paceline::models
