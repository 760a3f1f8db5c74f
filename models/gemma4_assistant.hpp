// Gemma 4's assistants (2026): a few narrow layers that draft for one target, and have no keys and
// values of their own.
//
// A row joins the embedding of a token, in the target's table, with the target's row for the
// position before, behind the final norm. Its queries are rotated as the token's, and see the keys
// and values of the target's last layer that has some of its own, among those with a window or
// those without, as the head's layer is. The rows of further tokens that it drafts go on from its
// own row, projected to the target's width, with the same rotation, and see the same keys. Its
// output head is its own: all ids, or for each row those of a few clusters.
//
// Keys and values come as all features do (Features): the target leaves them beside its row, and
// the head puts those of committed positions into pages of its own. It never reads the target's
// pages of keys, in which a vector of slots holds rows of committed positions and others, which a
// verification writes at the same time.
#pragma once

#include "models/head_source.hpp"

#include <string>

namespace paceline::models {

/// Opens the assistant in a folder, for a target of this name and configuration. Errors name what
/// another target has that it was made for, the option that is not known here, or a table of
/// clusters (`token_ordering`) that does not have each id once.
Result<HeadSource> open_gemma4_assistant(const std::string& folder, const ModelConfig& target,
                                         const std::string& target_name);

} // namespace paceline::models
