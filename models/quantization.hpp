// What config.json says of weights that were quantized before they were stored.
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/weight_format.hpp"

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {
class JsonFields;
}

namespace paceline::models {

/// How a checkpoint's linear layers are stored. Which of them are quantized is seen by their
/// tensors: one has a scale beside it.
struct StoredQuantization {
  std::string method;                 ///< Whose layout it is: "Quark"; empty: nothing is quantized.
  std::optional<WeightFormat> format; ///< Of weights that are bytes of codes, unless `layers` says.
  /// What the names of layers match (fnmatch), and their format; the first that matches counts.
  std::vector<std::pair<std::string, WeightFormat>> layers;
  /// Outputs and inputs that share a scale in FP8 weights that have two dimensions of them.
  int block_rows = 0;
  int block_cols = 0;
  /// Its makers quantize what the layers read, or the cache, too: here only the weights are.
  bool activations = false;

  /// Of the layer called `name`, whose weight is bytes of codes; none: config.json does not say.
  std::optional<WeightFormat> format_of(const std::string& name) const;
};

/// From config.json: Quark's, compressed-tensors' and fp8's own. Refuses other methods by name,
/// and what is known of these but not read.
StoredQuantization read_quantization(text::JsonFields& config);

/// A quantization_config in Quark's words: blocks in one format, the head in another or not at all.
boost::json::object quantization_config(const gpu::Quantization& blocks,
                                        const std::optional<gpu::Quantization>& head);

} // namespace paceline::models
