// EAGLE-3 heads (Li et al. 2025): one block that drafts from hidden states of the target. They are
// read from folders of the hub, in the layout of the method's authors ("midlayer.", options beside
// "draft_vocab_size") and in that of the speculators library ("speculators_model_type").
//
// A row of a head reads a token and the features of the position before: three hidden states of the
// target (low, middle, high), which `fc` combines into one. It gives logits for the position behind
// the token, over a vocabulary of its own, and features of the token's position; the head goes on
// from these where the target has none yet.
#pragma once

#include "models/head_source.hpp"

#include <string>

namespace paceline::models {

/// Opens the head in a folder, for a target of this name and configuration. It reads the inputs of
/// those layers that it names, else of the third, the middle one and the third from the end, as its
/// authors and other engines do. Errors name the layout or the option that is not known here, what
/// another target has that the head was made for, or a table of ids (`d2t`) that does not fit the
/// vocabularies or contradicts its mask (`t2d`).
Result<HeadSource> open_eagle3(const std::string& folder, const ModelConfig& target,
                               const std::string& target_name);

} // namespace paceline::models
