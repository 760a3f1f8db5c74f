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
  }
  return "f32";
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
