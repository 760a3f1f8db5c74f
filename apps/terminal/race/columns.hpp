// What runs in a race, side by side.
#pragma once

#include "apps/terminal/race/recording.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// The columns of a race, empty so far, and the engines that they need.
struct RaceField {
  std::vector<Recording> lanes;
  std::vector<EngineOptions> engines; ///< Recording::engine is an index.
};

/// Returns plain, synchronous and overlapped decoding on one engine.
RaceField all_modes(const EngineOptions& engine);

/// Reads columns such as "bf16", "mxfp6" and "mxfp6+draft": formats of weights, modes and drafts,
/// each with a plus between them. A column without a format has the weights of `engine`; one that
/// names a draft or a mode that needs one speculates, with `engine`'s draft unless it names its
/// own; others decode plainly, on the engine of a column with the same weights if there is one.
/// Errors: invalid_argument for a word that is none of these, two of a kind, or the same column
/// twice.
Result<RaceField> parse_columns(const std::vector<std::string>& columns,
                                const EngineOptions& engine);

} // namespace paceline::apps
