// The placement that `serve --placement` serves, from the file that `plan` writes.
#pragma once

#include "apps/server/fleet.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace paceline::apps {

/// Reads the placement. device_memory: replaces the file's. Errors name the file and its line, or
/// the part of the placement that cannot be served.
Result<serve::FleetPlan> read_placement(const std::string& file,
                                        std::optional<std::uint64_t> device_memory);

/// Returns how an engine of a placement is opened, with the options that all of them have in
/// common: a stage on each of its group's devices or sets of them, within that many bytes of each.
/// warm: the function that opens it.
serve::OpenEngine engine_opener(EngineOptions common,
                                std::function<Result<Engine>(EngineOptions)> warm);

} // namespace paceline::apps
