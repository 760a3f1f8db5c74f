// What makers say of their accelerators, and what follows from it for a step of a model: the
// roofline (Williams et al. 2009) of products with weights.
#pragma once

#include <string_view>
#include <vector>

namespace paceline::gpu::sim {

struct DataSheet {
  const char* name;
  double operations_per_second; ///< Dense products of 16-bit floats; a multiply-add is two.
  double bytes_per_second;      ///< Of its memory.
  double memory_bytes;
  const char* source;

  /// Returns the seconds in which so many bytes of weights are read.
  double read_seconds(double bytes) const { return bytes / bytes_per_second; }
  /// Returns the seconds of the products of one row with so many weights.
  double row_seconds(double weights) const { return 2 * weights / operations_per_second; }
  /// Returns the rows whose products take as long as reading the weights: a step of fewer rows is
  /// bound by memory. weight_bits: of each weight, as it lies in memory.
  double balanced_rows(double weight_bits) const {
    return read_seconds(weight_bits / 8) / row_seconds(1);
  }
  /// Returns what programs reach of it, which all profiles by memory rate assume.
  DataSheet reached() const;
};

/// Shares of memory rate and peak that programs reach.
inline constexpr double memory_share = 0.8;
inline constexpr double peak_share = 0.5;

const std::vector<DataSheet>& data_sheets();
/// Returns the one of that name; null: there is none.
const DataSheet* find_data_sheet(std::string_view name);

} // namespace paceline::gpu::sim
