// Which GPUs there are, and why one cannot be used.
#pragma once

#include "paceline/error.hpp"

#include <optional>

namespace paceline::gpu::cuda {

/// At least one; or why there is none.
Result<int> count_gpus();
/// Throws CudaError.
std::optional<Error> unusable(int index);

} // namespace paceline::gpu::cuda
