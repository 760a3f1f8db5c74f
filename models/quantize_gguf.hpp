// Quantizes a model into a GGUF file.
#pragma once

#include "models/quantize_options.hpp"

namespace paceline::models {

/// Writes the checkpoint at `location`, a folder or a GGUF file, to the new file `path`
/// (base::write_new_file). Formats are those of gpu::encoded_gguf_formats; none for the head stands
/// for q8_0, in which the embedding is, too. Matrices that would not take fewer bytes stay as they
/// are, and so does NVFP4, whose numbers have a scale elsewhere; of rows that do not fill its
/// blocks q4_k becomes q5_0. Vectors, routers and rates are f32. Errors: as of quantize_checkpoint.
Result<QuantizationReport> quantize_to_gguf(const std::string& location, const std::string& path,
                                            const QuantizeOptions& options);

} // namespace paceline::models
