// The places and shapes of rows in a GGUF file, where these are not those of a folder.
#pragma once

#include "gpu/recurrence.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"

#include <cstdint>
#include <vector>

namespace paceline::models {

/// Returns the numbers first, first + step, ...: `count` of them.
std::vector<int> every(int first, int step, int count);

/// Returns where the items of value heads lie now, of which a file has those apart that share a key
/// head. before: items before them, which stay. item: items of a head.
std::vector<int> heads_apart(const gpu::Recurrence& rule, int before, int item);

/// Returns the shape that a GGUF has in place of a folder's.
std::vector<std::int64_t> shape_in_gguf(TensorRole role, std::vector<std::int64_t> shape,
                                        const ModelConfig& config);

} // namespace paceline::models
