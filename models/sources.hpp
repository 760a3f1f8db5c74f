// Finds the source that a model's name leads to.
#pragma once

#include "models/checkpoint/source.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace paceline::models {

/// Returns the location of a model. "scripted:..." is its own location. "demo" gives the built-in
/// pair's folder for `role` ("target" or "draft"); a folder or a .gguf file gives itself, whatever
/// else has its name; any other name is looked up in the stores (checkpoint/stores.hpp). The error
/// for a name of the hub's form says how to fetch it.
Result<std::string> resolve_model_path(const std::string& name, const std::string& role);

/// Opens the source that a name leads to, for the model of `role`.
Result<std::shared_ptr<const CheckpointSource>> open_checkpoint(const std::string& name,
                                                                const std::string& role);

/// Returns whether a name in EngineOptions::drafters is "self:FORMAT": the target drafts for
/// itself, in that format.
bool is_self_draft(std::string_view name);
/// Returns the format in such a name. Error: there is no such format.
Result<WeightFormat> self_draft_format(std::string_view name);

} // namespace paceline::models
