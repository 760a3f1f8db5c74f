// Host memory for weights, caches and workspaces.
#pragma once

#include "gpu/device.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <memory>

namespace paceline::gpu::cpu {

/// Returns the machine's memory, or the container's limit if that is smaller.
DeviceMemory host_memory();

/// Allocates zeroed memory, aligned to 64 bytes; large buffers lie one behind another in huge pages
/// if the system allows. Pages become resident when they are first written. Threads: any.
Result<std::shared_ptr<Buffer>> allocate_host(std::size_t bytes);

/// Memory that grows and never shrinks; its contents are lost when it grows. 64-byte aligned.
class Scratch {
public:
  std::byte* at_least(std::size_t bytes);

private:
  std::shared_ptr<Buffer> buffer_;
};

} // namespace paceline::gpu::cpu
