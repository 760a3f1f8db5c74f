// The check of a caller's request, which becomes the one that the actors work with, with all
// defaults filled in.
#pragma once

#include "actors/opening.hpp"
#include "paceline/request.hpp"
#include "scheduling/requests.hpp"

#include <cstdint>
#include <memory>

namespace paceline::actors {

/// Returns the request in the facade's form, without id and sink. drawn_seed: used if none was
/// given, as far as it fits into the 53 bits that every reader of JSON keeps.
Result<scheduling::Submit> check_request(const Request& request, const EngineContext& engine,
                                         std::uint64_t drawn_seed);

/// Passes events on, and says in the last one whether the same request would give the same tokens
/// again (Finished::reproducible).
std::shared_ptr<base::EventSink> judging_repeats(std::shared_ptr<base::EventSink> to,
                                                 const speculation::SequenceSpec& spec,
                                                 const Request& request,
                                                 const EngineContext& engine);

} // namespace paceline::actors
