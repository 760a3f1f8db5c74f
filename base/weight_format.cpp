#include "paceline/weight_format.hpp"

namespace paceline {

const char* to_string(WeightFormat format) noexcept {
  switch (format) {
  case WeightFormat::f32: return "f32";
  case WeightFormat::f16: return "f16";
  case WeightFormat::bf16: return "bf16";
  case WeightFormat::mxfp8: return "mxfp8";
  case WeightFormat::mxfp8_e5m2: return "mxfp8-e5m2";
  case WeightFormat::mxfp6: return "mxfp6";
  case WeightFormat::mxfp6_e3m2: return "mxfp6-e3m2";
  case WeightFormat::mxfp4: return "mxfp4";
  case WeightFormat::mxint8: return "mxint8";
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
  }
  return "f32";
}

const char* to_string(Activations activations) noexcept {
  return activations == Activations::int8 ? "int8" : "bf16";
}

const char* to_string(ScaleChoice choice) noexcept {
  switch (choice) {
  case ScaleChoice::floor: return "floor";
  case ScaleChoice::ceil: return "ceil";
  case ScaleChoice::search: return "search";
  }
  return "search";
}

} // namespace paceline
