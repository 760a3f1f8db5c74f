// What a HostMatrix asks of all formats, which are above gpu/tensor.hpp.
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"
#include "gpu/tensor.hpp"

namespace paceline::gpu {

std::size_t HostMatrix::bytes_of(int columns) const {
  if (blocks)
    return std::size_t(columns / block_elements(*blocks)) * block_bytes(*blocks);
  if (block_scales)
    return std::size_t(blocks_of(columns)) * std::size_t(code_bytes(element_bits(format())));
  return std::size_t(columns) * size_of(dtype);
}

} // namespace paceline::gpu
