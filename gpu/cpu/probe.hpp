// Measures a machine's limits, to compare kernels with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::gpu::cpu {

/// Reads every byte once, as fast as one thread can. The result depends on all bytes, so that no
/// read is optimised away. bytes: whole words of 8 bytes; up to 511 at the end may be left out.
std::uint64_t read_once(std::span<const std::byte> bytes);

} // namespace paceline::gpu::cpu
