#include "gpu/gguf_format.hpp"

#include <algorithm>

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
  if (format == GgufFormat::nvfp4)
    return {};
  const auto at = std::ranges::find(gguf_formats, format);
  return WeightFormat(int(WeightFormat::q4_0) + int(at - gguf_formats.begin()));
}

} // namespace paceline::gpu
