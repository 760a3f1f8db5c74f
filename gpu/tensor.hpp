// Views of device memory, and the buffers that own it.
#pragma once

#include "base/host_device.hpp"
#include "gpu/gguf_format.hpp"
#include "paceline/error.hpp"
#include "paceline/weight_format.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::gpu {

enum class DType { f32, f16, bf16 };

PACELINE_HOST_DEVICE inline std::size_t size_of(DType t) {
  return t == DType::f32 ? 4 : 2;
}
const char* to_string(DType t) noexcept; // "f32", "f16", "bf16"

/// A row-major matrix of f32 in device memory: a view, valid as long as its buffer.
struct Tensor {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0; // Elements from one row to the next, >= cols.

  PACELINE_HOST_DEVICE float* row(int r) const {
    return data + std::size_t(r) * std::size_t(stride);
  }
  Tensor slice(int first, int count) const { return {row(first), count, cols, stride}; }
  Tensor columns(int first, int count) const { return {data + first, rows, count, stride}; }
  bool operator==(const Tensor&) const = default; ///< Whether it is the same view.
};

WeightFormat format_of(DType t) noexcept;

/// A microscaling format, and how its scales are chosen.
struct Quantization {
  WeightFormat format = WeightFormat::mxfp8;
  ScaleChoice scales = ScaleChoice::search;
  bool operator==(const Quantization&) const = default;
};

/// What matrices of the host are mapped from. Reading it costs less than the faults of a mapping's
/// pages, and leaves none of them in memory.
class HostFile {
public:
  virtual ~HostFile() = default;
  /// Copies mapped bytes, from `from` on. Threads: any.
  virtual Result<void> read(const std::byte* from, std::span<std::byte> to) const = 0;
};

/// A matrix in host memory as a checkpoint has it: [rows, cols], row-major, dense.
struct HostMatrix {
  DType dtype = DType::f32;
  const void* data = nullptr;
  int rows = 0;
  int cols = 0;
  const float* bias = nullptr;                   ///< [rows], added to the product; null: none.
  std::optional<Quantization> quantization = {}; ///< Format to pack it in; none: unchanged.
  /// [rows, blocks_of(cols)], if the matrix is stored in `quantization`'s format: `data` is then
  /// [rows, blocks_of(cols), code_bytes] (store_codes). Null: `data` are numbers of `dtype`.
  const std::uint8_t* block_scales = nullptr;
  /// Format of the GGUF blocks that `data` holds, one after another; kernels multiply by it.
  std::optional<GgufFormat> blocks = {};
  /// Whether rows that are multiplied with it are rounded to 8 bits, if the format's codes are
  /// integers and the device can do that; else they are rounded as the format says.
  bool int8_rows = false;
  /// What `data` is mapped from, for `pack` to read; null: `data` is memory of its own.
  const HostFile* file = nullptr;

  WeightFormat format() const; ///< The format in which it is packed.
  /// Returns the bytes in `data` of a row's first `columns`: of whole blocks, if it has blocks.
  std::size_t bytes_of(int columns) const;
  std::size_t row_bytes() const { return bytes_of(cols); }
};

/// Matrices one below the other, to be packed into one weight.
struct WeightStack {
  DType dtype = DType::f32; ///< The parts' dtype, if they are not quantized.
  WeightFormat format = WeightFormat::f32;
  int outputs = 0;
  int inputs = 0;
  bool int8_rows = false;  ///< Whether all parts ask for it.
  std::vector<float> bias; ///< [outputs], 0 for parts without bias; empty: no part has one.
};
/// Stacks the parts; they must have equal columns and formats.
Result<WeightStack> stack_of(std::span<const HostMatrix> parts);

/// Device memory, freed with the last reference, aligned to 64 bytes and zeroed.
class Buffer {
public:
  virtual ~Buffer() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t size() const = 0;

  /// Returns a view of the first rows x cols floats of the buffer.
  Tensor tensor(int rows, int cols) { return {reinterpret_cast<float*>(data()), rows, cols, cols}; }
};

/// A weight matrix [outputs, inputs] packed for one device's kernels, with its bias if it has one.
/// It is immutable.
class Weight {
public:
  virtual ~Weight() = default;
  virtual int outputs() const = 0;
  virtual int inputs() const = 0;
  virtual WeightFormat format() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Returns whether rows that are multiplied with it are rounded to 8 bits.
  virtual bool rounds_to_int8() const { return false; }
};

} // namespace paceline::gpu
