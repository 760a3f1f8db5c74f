// Multi-token prediction (DeepSeek-AI 2024, section 2.2): a block that a checkpoint brings beside
// its layers, to draft for them.
//
// A row joins the embedding of a token with the target's row for the position before, behind the
// final norm. The block, like one of the target's with attention, and the target's own head give
// logits for the position behind the token. Where the target has no row yet, the block goes on from
// its own. Of several blocks the first is used for every depth.
#pragma once

#include "models/checkpoint/source.hpp"
#include "models/head_source.hpp"

#include <string>

namespace paceline::models {

/// The name of such a draft (EngineOptions::drafters).
inline constexpr const char* mtp_draft = "mtp";

/// Opens the block that drafts. target: the configuration of the source's model. Error: it brings
/// none.
Result<HeadSource> open_mtp(const CheckpointSource& source, const ModelConfig& target);

/// Returns whether the checkpoint of this name brings such a block; false also if it cannot be
/// read.
bool brings_mtp(const std::string& name);

} // namespace paceline::models
