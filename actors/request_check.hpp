// From what a caller asked for to what the actors work with: checked, with all defaults filled in.
#pragma once

#include "actors/opening.hpp"
#include "messages/request.hpp"
#include "paceline/request.hpp"

#include <cstdint>

namespace paceline::actors {

/// The request as the facade takes it, without id and sink. drawn_seed: used when none was given.
Result<messages::Submit> check_request(const Request& request, const EngineContext& engine,
                                       std::uint64_t drawn_seed);

} // namespace paceline::actors
