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

/// For each shape among the weights, which are of bf16 and of this device, and each number of rows.
/// Rows are there already as each of the two wants them, and the weight as well. A weight that fits
/// the GPU's cache is read from there, by both. Errors: cuBLASLt is missing.
Result<std::vector<ProductTimes>>
time_products(const std::string& device, std::span<const std::shared_ptr<const Weight>> weights,
              std::span<const int> rows);

} // namespace paceline::gpu::cuda
