// Quantizes a checkpoint into a folder of its own, in the layout of AMD's Quark, or into a GGUF
// file.
#pragma once

#include "models/quantize_options.hpp"
#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// Writes the checkpoint at `location`, quantized, to the new folder `path` (base::write_folder),
/// with the files that belong to it; if the path ends with ".gguf", to a file (quantize_gguf.hpp).
/// Loading a folder gives the same bits as loading the source with these formats; its head stays as
/// it is if no format is given. Errors: `cancelled`; a weight that is not finite, by its tensor's
/// name; a source that is quantized already.
Result<QuantizationReport> quantize_checkpoint(const std::string& location, const std::string& path,
                                               const QuantizeOptions& options);

} // namespace paceline::models
