// Finds GPUs, and the reasons why they cannot be used.
#pragma once

#include "paceline/error.hpp"

#include <optional>

namespace paceline::gpu::cuda {

/// Returns the number of GPUs, at least one, or why there is none.
Result<int> count_gpus();
/// Returns why a GPU cannot be used; none if it can. Throws CudaError.
std::optional<Error> unusable(int index);

} // namespace paceline::gpu::cuda
