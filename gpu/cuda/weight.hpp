// Weight matrices in a GPU's memory.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/kernels.hpp"

#include <memory>
#include <span>

namespace paceline::gpu::cuda {

class DeviceWeight final : public Weight {
public:
  /// Packs matrices of one format on the host's cores, piece by piece, each while the one before it
  /// is copied.
  static Result<std::shared_ptr<const Weight>> pack(Context& context,
                                                    std::span<const HostMatrix> parts);

  int outputs() const override { return packed_.layout.outputs; }
  int inputs() const override { return packed_.layout.inputs; }
  WeightFormat format() const override { return packed_.layout.format; }
  std::size_t bytes() const override { return data_->size() + (bias_ ? bias_->size() : 0); }

  const kernels::PackedWeight& packed() const { return packed_; }

private:
  kernels::PackedWeight packed_;
  std::shared_ptr<Buffer> data_;
  std::shared_ptr<Buffer> bias_; ///< Null: the weight has none.
};

/// Copies host floats into a GPU's memory.
Result<std::shared_ptr<Buffer>> upload(Context& context, std::span<const float> values);

} // namespace paceline::gpu::cuda
