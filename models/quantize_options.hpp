// How a checkpoint is quantized, and what that changed.
#pragma once

#include "gpu/tensor.hpp"
#include "models/load_options.hpp"
#include "models/row_encoder.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace paceline::models {

struct QuantizeOptions {
  gpu::Quantization blocks;              ///< Format of the blocks' linear layers.
  std::optional<gpu::Quantization> head; ///< Format of the output head; none: the usual one.
  ProgressCallback progress;             ///< May be empty.
  std::function<bool()> cancelled;       ///< Asked now and then; may be empty.
};

/// Layers of one name, such as "q_proj" of all blocks.
struct QuantizedKind {
  std::string name;
  WeightFormat format;
  int matrices = 0;
  std::uint64_t bytes = 0; ///< Bytes with scales.
  QuantizationError error;

  double bits() const { return error.weights ? 8.0 * double(bytes) / double(error.weights) : 0; }
};

struct QuantizationReport {
  std::vector<QuantizedKind> kinds; ///< One per kind, in the order of their tensors' names.
  std::uint64_t bytes_before = 0;   ///< Bytes of all tensors.
  std::uint64_t bytes_after = 0;
};

/// Tells the progress, and returns `cancelled` if it is time to stop. done, all: bytes of the
/// source
Result<void> check_progress(const QuantizeOptions& options, std::uint64_t done, std::uint64_t all);

} // namespace paceline::models
