#include "gpu/cuda/arguments.hpp"

#include "base/expect.hpp"
#include "gpu/limits.hpp"

namespace paceline::gpu::cuda {
namespace {

// Wide enough for every kernel's loads.
constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

} // namespace

void Arguments::begin() {
  if (blocks_.size() != 1) {
    std::size_t all = limits::cuda_arguments;
    for (const Block& block : blocks_)
      all += block.host->size();
    const bool first = blocks_.empty();
    blocks_.clear();
    blocks_.push_back(allocate(first ? limits::cuda_arguments : all));
  }
  used_ = sent_ = 0;
}

Arguments::Block Arguments::allocate(std::size_t bytes) {
  return {base::value_or_throw(context_->allocate_pinned(bytes)),
          base::value_or_throw(context_->allocate(bytes))};
}

Twin<std::byte> Arguments::take_bytes(std::size_t bytes) {
  if (blocks_.back().host->size() - used_ < aligned(bytes)) {
    send();
    blocks_.push_back(allocate(std::max(limits::cuda_arguments, aligned(bytes))));
    used_ = sent_ = 0;
  }
  Block& block = blocks_.back();
  const Twin<std::byte> twin{block.host->data() + used_, block.device->data() + used_, bytes};
  used_ += aligned(bytes);
  return twin;
}

void Arguments::send() {
  if (sent_ == used_)
    return;
  Block& block = blocks_.back();
  PACELINE_CUDA_CHECK(cudaMemcpyAsync(block.device->data() + sent_, block.host->data() + sent_,
                                      used_ - sent_, cudaMemcpyHostToDevice, stream_));
  sent_ = used_;
}

std::byte* DeviceScratch::at_least(std::size_t bytes) {
  if (!buffer_ || buffer_->size() < bytes) {
    auto grown = base::value_or_throw(context_->allocate(bytes + bytes / 2));
    if (buffer_)
      outgrown_.push_back(std::move(buffer_));
    buffer_ = std::move(grown);
  }
  return buffer_->data();
}

} // namespace paceline::gpu::cuda
