// Our products beside cuBLASLt's, which is what they are measured by.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

/// Seconds of a product with a weight, medians.
struct ProductTimes {
  int rows = 0;
  int outputs = 0;
  int inputs = 0;
  double ours = 0;
  double cublas = 0; ///< By the algorithm that it thinks best, split sums and all.
};

/// For each shape among those of the weights that are multiplied as bf16, and each number of rows.
/// weights: of this device. Rows are there already as each of the two wants them, and the weight,
/// as bf16, as well. A weight that fits the GPU's cache is read from there, by both. Errors:
/// cuBLASLt is missing.
Result<std::vector<ProductTimes>>
time_products(const std::string& device, std::span<const std::shared_ptr<const Weight>> weights,
              std::span<const int> rows);

} // namespace paceline::gpu::cuda
