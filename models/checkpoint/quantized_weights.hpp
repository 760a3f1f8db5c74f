// Weights that were quantized before they were stored: blocks of a microscaling format as they are,
// FP8 numbers with scales of other kinds as the f32 that they stand for.
#pragma once

#include "models/checkpoint/tensor_files.hpp"
#include "models/quantization.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Knows a layer `L` by its tensors. Codes: L.weight, or L.weight_packed (compressed-tensors' of
/// FP4). Scales of blocks of 32 inputs: L.weight_scale, [rows, blocks], E8M0. Scales of FP8
/// weights: L.weight_scale_inv or L.weight_scale, numbers, one for all, for a row, or for a block
/// of rows and columns. Threads: one.
class QuantizedWeights {
public:
  /// files: must outlive this and stay where they are.
  QuantizedWeights(TensorFiles& files, StoredQuantization how);

  /// Whether the layer's weight is codes, and config.json says that there are such.
  bool has(const std::string& layer) const;
  /// [rows, cols] of a layer that `has`, valid until it is released. Errors name the tensor: one
  /// that is missing, of another shape or type, or a scale or code that is not a number.
  Result<gpu::HostMatrix> matrix(const std::string& layer, int rows, int cols);
  void release(const std::string& layer);

  /// Whether a tensor describes activations or the cache, which are not quantized here.
  bool is_of_activations(std::string_view name) const;
  /// Of codes: "mxfp4", "f8_e4m3"; of anything else empty.
  std::string format_name(const TensorEntry& entry) const;
  /// The weights that a tensor of codes holds, the last blocks' padding counted.
  std::uint64_t elements(const TensorEntry& entry) const;

private:
  const TensorEntry* codes_of(const std::string& layer) const;
  /// None: FP8 numbers with scales of other kinds, or nothing that is known.
  std::optional<WeightFormat> block_format(const TensorEntry& codes) const;
  Result<gpu::HostMatrix> blocks(const TensorEntry& codes, WeightFormat format, int rows, int cols);
  /// The numbers that FP8 weights are multiplied with: one for `rows_each` rows and `cols_each`
  /// columns.
  struct Scales {
    std::vector<float> values; ///< [divided up rows, divided up columns]
    int rows_each;
    int cols_each;
  };
  Result<Scales> scales(const std::string& layer, int rows, int cols) const;
  Result<gpu::HostMatrix> scaled(const TensorEntry& codes, int rows, int cols);

  TensorFiles* files_;
  StoredQuantization how_;
  std::vector<std::unique_ptr<float[]>> kept_; ///< Matrices handed out.
};

} // namespace paceline::models
