// DFlash drafters (Chen et al. 2026, "DFlash: Block Diffusion for Flash Speculative Decoding"): a
// few layers that write a block of tokens in one pass (block_drafter.hpp). They are read from
// folders of the hub, in the layout of the method's authors ("DFlashDraftModel", options in
// "dflash_config") and in that of the speculators library ("speculators_model_type").
#pragma once

#include "models/head_source.hpp"

#include <string>

namespace paceline::models {

/// Opens the drafter in a folder, for a target of this name and configuration. Errors name the
/// layout or the option that is not known here, what another target has that it was made for, or
/// tables of ids that do not fit the vocabularies.
Result<HeadSource> open_dflash(const std::string& folder, const ModelConfig& target,
                               const std::string& target_name);

} // namespace paceline::models
