// What `serve --placement` serves, from the file that `plan` writes.
#pragma once

#include "apps/server/fleet.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace paceline::apps {

/// device_memory: in place of the file's. Errors name the file and its line, or what of the
/// placement cannot be served.
Result<serve::FleetPlan> read_placement(const std::string& file,
                                        std::optional<std::uint64_t> device_memory);

/// How an engine of a placement is opened, with what all of them have in common: a stage on each of
/// its group's devices or sets of them, within that many bytes of each. warm: what opens it.
serve::OpenEngine engine_opener(EngineOptions common,
                                std::function<Result<Engine>(EngineOptions)> warm);

} // namespace paceline::apps
