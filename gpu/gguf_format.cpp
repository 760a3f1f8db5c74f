#include "gpu/gguf_format.hpp"

#include "gpu/gguf_blocks.hpp"

#include <iterator>

namespace paceline::gpu {

const char* to_string(GgufFormat format) noexcept {
  const auto own = weight_format(format);
  return own ? to_string(*own) : "nvfp4";
}

std::optional<GgufFormat> gguf_format(std::uint32_t type) noexcept {
  for (const GgufFormat format : gguf_formats)
    if (std::uint32_t(format) == type)
      return format;
  return {};
}

std::optional<WeightFormat> weight_format(GgufFormat format) noexcept {
  if (format == GgufFormat::mxfp4)
    return WeightFormat::mxfp4;
  for (int i = 0; i < int(std::size(scaled_formats)); ++i)
    if (scaled_formats[i].format == format)
      return WeightFormat(int(WeightFormat::q4_0) + i);
  return {};
}

} // namespace paceline::gpu
