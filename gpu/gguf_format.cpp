#include "gpu/gguf_format.hpp"

namespace paceline::gpu {

const char* to_string(GgufFormat format) noexcept {
  switch (format) {
  case GgufFormat::q4_0: return "q4_0";
  case GgufFormat::q4_1: return "q4_1";
  case GgufFormat::q5_0: return "q5_0";
  case GgufFormat::q5_1: return "q5_1";
  case GgufFormat::q8_0: return "q8_0";
  case GgufFormat::q2_k: return "q2_k";
  case GgufFormat::q3_k: return "q3_k";
  case GgufFormat::q4_k: return "q4_k";
  case GgufFormat::q5_k: return "q5_k";
  case GgufFormat::q6_k: return "q6_k";
  case GgufFormat::iq4_nl: return "iq4_nl";
  case GgufFormat::iq4_xs: return "iq4_xs";
  case GgufFormat::mxfp4: return "mxfp4";
  case GgufFormat::nvfp4: break;
  }
  return "nvfp4";
}

std::optional<GgufFormat> gguf_format(std::uint32_t type) noexcept {
  for (const GgufFormat format : gguf_formats)
    if (std::uint32_t(format) == type)
      return format;
  return {};
}

std::optional<WeightFormat> weight_format(GgufFormat format) noexcept {
  switch (format) {
  case GgufFormat::q4_0: return WeightFormat::q4_0;
  case GgufFormat::q4_1: return WeightFormat::q4_1;
  case GgufFormat::q5_0: return WeightFormat::q5_0;
  case GgufFormat::q5_1: return WeightFormat::q5_1;
  case GgufFormat::q8_0: return WeightFormat::q8_0;
  case GgufFormat::q2_k: return WeightFormat::q2_k;
  case GgufFormat::q3_k: return WeightFormat::q3_k;
  case GgufFormat::q4_k: return WeightFormat::q4_k;
  case GgufFormat::q5_k: return WeightFormat::q5_k;
  case GgufFormat::q6_k: return WeightFormat::q6_k;
  case GgufFormat::iq4_nl: return WeightFormat::iq4_nl;
  case GgufFormat::iq4_xs: return WeightFormat::iq4_xs;
  case GgufFormat::mxfp4: return WeightFormat::mxfp4;
  case GgufFormat::nvfp4: break;
  }
  return {};
}

} // namespace paceline::gpu
