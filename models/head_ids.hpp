// The tables of a head that says a part of the target's ids, in the layouts that name them `d2t`
// and `t2d`.
#pragma once

#include "models/checkpoint/tensor_files.hpp"
#include "paceline/request.hpp"

#include <vector>

namespace paceline::models {

/// Reads the target's ids by the head's. said: how many ids the head says; known: the target's.
/// They are the same where there is no table and both are as many. Error: a table that does not fit
/// the vocabularies or contradicts its mask.
Result<std::vector<TokenId>> read_head_ids(TensorFiles& files, int said, int known);

} // namespace paceline::models
