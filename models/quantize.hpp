// Quantizes a checkpoint into a folder of its own, in the layout of AMD's Quark.
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
  std::optional<gpu::Quantization> head; ///< Format of the output head; none: as it is.
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

/// Writes the checkpoint at `location`, quantized, to the new folder `path` (base::write_folder),
/// with the files that belong to it. Loading the result gives the same bits as loading the source
/// with these formats. Errors: `cancelled`; a weight that is not finite, by its tensor's name; a
/// source that is quantized already.
Result<QuantizationReport> quantize_checkpoint(const std::string& location, const std::string& path,
                                               const QuantizeOptions& options);

} // namespace paceline::models
