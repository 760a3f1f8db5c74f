#include "gpu/cuda/arguments.hpp"

#include "base/expect.hpp"
#include "gpu/limits.hpp"

#include <bit>
#include <utility>

namespace paceline::gpu::cuda {
namespace {

// Wide enough for every kernel's loads.
constexpr std::size_t alignment = 256;

std::size_t room_for(std::size_t bytes) {
  return std::max(alignment, std::bit_ceil(bytes));
}

} // namespace

void Arguments::begin() {
  if (blocks_.size() != 1) {
    std::size_t all = limits::cuda_arguments;
    for (const Block& block : blocks_)
      all += block.host->size();
    const bool first = blocks_.empty();
    outgrown_ = std::exchange(blocks_, {});
    blocks_.push_back(allocate(first ? limits::cuda_arguments : all));
  }
  used_ = 0;
  sent_ = nullptr;
}

Arguments::Block Arguments::allocate(std::size_t bytes) {
  return {base::value_or_throw(context_->allocate_pinned(bytes)),
          base::value_or_throw(context_->allocate(bytes))};
}

Twin<std::byte> Arguments::take_bytes(std::size_t bytes) {
  const std::size_t room = room_for(bytes);
  if (blocks_.back().host->size() - used_ < room) {
    blocks_.push_back(allocate(std::max(limits::cuda_arguments, room)));
    used_ = 0;
    sent_ = nullptr;
  }
  Block& block = blocks_.back();
  if (!sent_)
    sent_ = &recording_.add(
        Copy("arguments", block.device->data(), block.host->data(), 0, cudaMemcpyHostToDevice));
  const Twin<std::byte> twin{block.host->data() + used_, block.device->data() + used_, bytes};
  used_ += room;
  sent_->extend(room);
  return twin;
}

std::shared_ptr<Buffer> DeviceScratch::allocate(std::size_t bytes) const {
  if (auto reached = base::value_or_throw(context_->allocate_reached_by(peers_, bytes)))
    return reached;
  return base::value_or_throw(context_->allocate(bytes));
}

std::byte* DeviceScratch::at_least(std::size_t bytes) {
  if (!buffer_ || buffer_->size() < bytes) {
    auto grown = allocate(bytes + bytes / 2);
    if (buffer_)
      outgrown_.push_back(std::move(buffer_));
    buffer_ = std::move(grown);
  }
  return buffer_->data();
}

} // namespace paceline::gpu::cuda
