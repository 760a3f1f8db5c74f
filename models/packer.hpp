// Packs a checkpoint's tensors for a device, one after the other.
#pragma once

#include "gpu/device.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/shards.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::models {

/// The part of a weight that one linear layer of the checkpoint holds.
struct LayerPart {
  TensorKey key;
  int rows; ///< Rows as stored.
  bool bias = false;
  std::vector<Range> own = {}; ///< Rows that a shard has, in this order; empty: all.
};

/// Packs tensors. Remembers the first error, after which it packs nothing. The arguments of the
/// constructor must outlive it. Threads: one.
class Packer {
public:
  /// dtype: the type of matrices that are not quantized. int8_rows: as in HostMatrix.
  Packer(TensorSource& tensors, gpu::DType dtype, gpu::Device& device, bool int8_rows)
      : tensors_(tensors), dtype_(dtype), device_(device), int8_rows_(int8_rows) {}

  /// Packs all parts as one weight, one below the other, and releases their bytes. Null after an
  /// error. own: the columns that a shard has, in whole blocks if they are of a microscaling
  /// format; none: all.
  std::shared_ptr<const gpu::Weight> pack(const std::vector<LayerPart>& parts, int cols,
                                          const std::optional<gpu::Quantization>& quantization = {},
                                          const std::optional<Range>& own = {});
  /// Packs a norm's weight, to which `plus` is added, `times` a factor. Null if the family has no
  /// such norm.
  std::shared_ptr<gpu::Buffer> norm(TensorKey key, int size, float plus, float times = 1);
  /// Packs a layer norm's weight, and behind it its bias. Null if the family has no such norm.
  std::shared_ptr<gpu::Buffer> layer_norm(TensorKey key, int size);
  std::shared_ptr<gpu::Buffer> upload(const std::vector<float>& values);

  /// Returns the value, or none after an error, which it remembers.
  template <class T>
  std::optional<T> keep(Result<T> result) {
    if (!result)
      fail_with(result.error());
    return error_ ? std::nullopt : std::optional<T>(std::move(*result));
  }
  void fail_with(Error error) {
    if (!error_)
      error_ = std::move(error);
  }
  const std::optional<Error>& error() const { return error_; }
  std::size_t bytes() const { return bytes_; } ///< Bytes of everything it packed.

private:
  bool keeps(const gpu::HostMatrix& stored, const std::optional<gpu::Quantization>& quantization,
             const std::optional<Range>& own) const;
  bool alike(TensorKey first, const std::vector<gpu::HostMatrix>& parts, TensorKey key,
             const gpu::HostMatrix& matrix);

  TensorSource& tensors_;
  const gpu::DType dtype_;
  gpu::Device& device_;
  const bool int8_rows_;
  std::optional<Error> error_;
  std::size_t bytes_ = 0;
};

} // namespace paceline::models
