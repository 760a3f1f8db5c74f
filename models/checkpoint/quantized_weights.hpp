// Weights that were quantized before they were stored. Blocks of a microscaling format stay as they
// are; FP8 numbers with scales of other kinds become the f32 that they stand for.
#pragma once

#include "models/checkpoint/tensor_files.hpp"
#include "models/quantization.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Finds a layer `L` by its tensors. Codes: L.weight, or L.weight_packed (FP4 of
/// compressed-tensors). Scales of blocks of 32 inputs: L.weight_scale, [rows, blocks], E8M0. Scales
/// of FP8 weights: L.weight_scale_inv or L.weight_scale, numbers, one for all, for a row, or for a
/// block of rows and columns. Threads: one.
class QuantizedWeights {
public:
  /// files: must outlive this object and stay at its address.
  QuantizedWeights(TensorFiles& files, StoredQuantization how);

  /// Returns whether the layer's weight is codes and config.json describes the quantization.
  bool has(const std::string& layer) const;
  /// Returns the matrix [rows, cols] of a layer that `has`, valid until it is released. Errors name
  /// the tensor: it is missing, has another shape or type, or a scale or code is not a number.
  Result<gpu::HostMatrix> matrix(const std::string& layer, int rows, int cols);
  void release(const std::string& layer);

  /// Returns whether a tensor describes activations or the cache, which are not quantized here.
  bool is_of_activations(std::string_view name) const;
  /// Returns the format of a tensor of codes: "mxfp4", "f8_e4m3"; of any other tensor empty.
  std::string format_name(const TensorEntry& entry) const;
  /// Returns how many weights a tensor of codes holds, with the padding of the last blocks.
  std::uint64_t elements(const TensorEntry& entry) const;

private:
  const TensorEntry* codes_of(const std::string& layer) const;
  /// Returns none for FP8 numbers with scales of other kinds, and for unknown codes.
  std::optional<WeightFormat> block_format(const TensorEntry& codes) const;
  Result<gpu::HostMatrix> blocks(const TensorEntry& codes, WeightFormat format, int rows, int cols);
  /// The numbers by which FP8 weights are multiplied: one for each block of `rows_each` rows and
  /// `cols_each` columns.
  struct Scales {
    std::vector<float> values; ///< [rows / rows_each, cols / cols_each], both rounded up.
    int rows_each;
    int cols_each;
  };
  Result<Scales> scales(const std::string& layer, int rows, int cols) const;
  Result<gpu::HostMatrix> scaled(const TensorEntry& codes, int rows, int cols);

  TensorFiles* files_;
  StoredQuantization how_;
  std::vector<std::unique_ptr<float[]>> kept_; ///< Matrices that were handed out.
};

} // namespace paceline::models
