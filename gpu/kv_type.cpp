#include "gpu/kv_type.hpp"

namespace paceline::gpu {

const char* to_string(KvType type) noexcept {
  switch (type) {
  case KvType::f32: return "f32";
  case KvType::bf16: return "bf16";
  case KvType::int8: return "int8";
  }
  return "f32";
}

} // namespace paceline::gpu
