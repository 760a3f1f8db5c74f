#include "gpu/cuda/weight.hpp"

#include "gpu/shares.hpp"

#include <cstring>

namespace paceline::gpu::cuda {

Result<std::shared_ptr<const Weight>> DeviceWeight::pack(Context& context,
                                                         std::span<const HostMatrix> parts) {
  const auto stack = stack_of(parts);
  if (!stack)
    return tl::unexpected(stack.error());
  auto weight = std::make_shared<DeviceWeight>();
  kernels::PackedLayout& layout = weight->packed_.layout;
  layout = kernels::PackedLayout::of(stack->format, stack->outputs, stack->inputs);
  auto data = context.allocate(layout.bytes());
  if (!data)
    return tl::unexpected(data.error());
  weight->data_ = std::move(*data);
  weight->packed_.data = weight->data_->data();
  if (!stack->bias.empty()) {
    auto bias = upload(context, stack->bias);
    if (!bias)
      return tl::unexpected(bias.error());
    weight->bias_ = std::move(*bias);
    weight->packed_.bias = reinterpret_cast<const float*>(weight->bias_->data());
  }
  const auto fill = [&](std::size_t first, std::span<std::byte> piece) {
    const int first_tile = int(first / layout.tile_bytes);
    for_shares(int(piece.size() / layout.tile_bytes), piece.size(), [&](int begin, int end) {
      kernels::pack(layout, parts, first_tile + begin, first_tile + end,
                    piece.data() + std::size_t(begin) * layout.tile_bytes);
    });
  };
  if (auto done = context.upload(*weight->data_, layout.tile_bytes, fill); !done)
    return tl::unexpected(done.error());
  return weight;
}

Result<std::shared_ptr<Buffer>> upload(Context& context, std::span<const float> values) {
  auto buffer = context.allocate(values.size_bytes());
  if (!buffer)
    return buffer;
  const auto fill = [&](std::size_t first, std::span<std::byte> piece) {
    std::memcpy(piece.data(), std::as_bytes(values).data() + first, piece.size());
  };
  if (auto done = context.upload(**buffer, sizeof(float), fill); !done)
    return tl::unexpected(done.error());
  return buffer;
}

} // namespace paceline::gpu::cuda
