#include "models/checkpoint/widen.hpp"

#include "base/bf16.hpp"

namespace paceline::models {
namespace {

template <class T>
std::vector<float> widen_as(const void* source, std::size_t n) {
  std::vector<float> out(n);
  const T* in = static_cast<const T*>(source);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = base::to_float(in[i]);
  return out;
}

} // namespace

std::vector<float> widen(gpu::DType dtype, const void* source, std::size_t n) {
  switch (dtype) {
  case gpu::DType::bf16: return widen_as<base::bf16>(source, n);
  case gpu::DType::f16: return widen_as<base::f16>(source, n);
  case gpu::DType::f32: break;
  }
  const auto* in = static_cast<const float*>(source);
  return {in, in + n};
}

} // namespace paceline::models
