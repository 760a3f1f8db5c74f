// Measures our products against cuBLASLt's.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

/// Median seconds of a product with a weight.
struct ProductTimes {
  int rows = 0;
  int outputs = 0;
  int inputs = 0;
  double ours = 0;
  double cublas = 0; ///< Time with the algorithm that it thinks best, which may split sums.
};

/// Times products for each shape among the weights that are multiplied as bf16, and each number of
/// rows. weights: on this device. Rows are already in the form that each of the two reads, and so
/// is the weight, as bf16 for cuBLASLt. A weight that fits the GPU's cache is read from there, by
/// both. Errors: cuBLASLt is missing.
Result<std::vector<ProductTimes>>
time_products(const std::string& device, std::span<const std::shared_ptr<const Weight>> weights,
              std::span<const int> rows);

} // namespace paceline::gpu::cuda
