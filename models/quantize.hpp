// A checkpoint quantized into a folder of its own, in the layout of AMD's Quark.
#pragma once

#include "gpu/tensor.hpp"
#include "models/model.hpp"
#include "models/row_encoder.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace paceline::models {

struct QuantizeOptions {
  gpu::Quantization blocks;              ///< Of their linear layers.
  std::optional<gpu::Quantization> head; ///< Of the output head; none: as it is.
  ProgressCallback progress;             ///< May be empty.
  std::function<bool()> cancelled;       ///< Asked now and then; may be empty.
};

/// Layers of one name: "q_proj" of all blocks.
struct QuantizedKind {
  std::string name;
  WeightFormat format;
  int matrices = 0;
  std::uint64_t bytes = 0; ///< With scales.
  QuantizationError error;

  double bits() const { return error.weights ? 8.0 * double(bytes) / double(error.weights) : 0; }
};

struct QuantizationReport {
  std::vector<QuantizedKind> kinds; ///< In the order of their tensors' names.
  std::uint64_t bytes_before = 0;   ///< Of all tensors.
  std::uint64_t bytes_after = 0;
};

/// Writes the checkpoint at `location` quantized to the new folder `path` (base::write_folder),
/// with the files that go with it. What it gives is, loaded, what loading the source with these
/// formats gives, bit for bit. Errors: `cancelled`; a weight that is not finite, by its tensor's
/// name; a source that is quantized already.
Result<QuantizationReport> quantize_checkpoint(const std::string& location, const std::string& path,
                                               const QuantizeOptions& options);

} // namespace paceline::models
