#include "paceline/weight_format.hpp"

#include "paceline/names.hpp"

namespace paceline {

const char* to_string(WeightFormat format) noexcept {
  switch (format) {
  case WeightFormat::f32: return "f32";
  case WeightFormat::f16: return "f16";
  case WeightFormat::bf16: return "bf16";
  case WeightFormat::q4_0: return "q4_0";
  case WeightFormat::q4_1: return "q4_1";
  case WeightFormat::q5_0: return "q5_0";
  case WeightFormat::q5_1: return "q5_1";
  case WeightFormat::q8_0: return "q8_0";
  case WeightFormat::q2_k: return "q2_k";
  case WeightFormat::q3_k: return "q3_k";
  case WeightFormat::q4_k: return "q4_k";
  case WeightFormat::q5_k: return "q5_k";
  case WeightFormat::q6_k: return "q6_k";
  case WeightFormat::iq4_nl: return "iq4_nl";
  case WeightFormat::iq4_xs: return "iq4_xs";
  default: return name_of(format);
  }
}

const char* to_string(Activations activations) noexcept {
  return name_of(activations);
}
const char* to_string(KvCacheDtype dtype) noexcept {
  return name_of(dtype);
}
const char* to_string(ScaleChoice choice) noexcept {
  return name_of(choice);
}

} // namespace paceline
