// Reads config.json's description of weights that were quantized before they were stored.
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

/// How a checkpoint's linear layers are stored. Their tensors tell which of them are quantized:
/// those that have a scale.
struct StoredQuantization {
  std::string method; ///< Name of the layout: "Quark"; empty: nothing is quantized.
  /// Format of weights that are bytes of codes, unless `layers` gives one.
  std::optional<WeightFormat> format;
  /// Patterns of layers' names (fnmatch) with their formats; the first that matches counts.
  std::vector<std::pair<std::string, WeightFormat>> layers;
  /// Outputs and inputs that share a scale, in FP8 weights whose scales have two dimensions.
  int block_rows = 0;
  int block_cols = 0;
  /// The makers also quantize the layers' inputs, or the cache; here only weights are quantized.
  bool activations = false;

  /// Returns the format of the layer called `name`, whose weight is bytes of codes; none:
  /// config.json does not say.
  std::optional<WeightFormat> format_of(const std::string& name) const;
};

/// Reads the layouts of Quark, compressed-tensors and fp8 from config.json, and gpt-oss's of MXFP4
/// if the family has `stacks` of it (checkpoint/expert_stacks.hpp). Refuses other methods by name,
/// and parts of these layouts that are known but not read.
StoredQuantization read_quantization(text::JsonFields& config, bool stacks);

/// Makes a quantization_config in Quark's layout: blocks in one format, the head in another or in
/// none. head_name: its layer. plain: the names in a block of layers that are never quantized.
boost::json::object quantization_config(const gpu::Quantization& blocks,
                                        const std::optional<gpu::Quantization>& head,
                                        const std::string& head_name,
                                        const std::vector<std::string>& plain);

} // namespace paceline::models
