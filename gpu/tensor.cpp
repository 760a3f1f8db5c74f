#include "gpu/tensor.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::gpu {

const char* to_string(DType t) noexcept {
  return to_string(format_of(t));
}

WeightFormat format_of(DType t) noexcept {
  switch (t) {
  case DType::f32: return WeightFormat::f32;
  case DType::f16: return WeightFormat::f16;
  case DType::bf16: return WeightFormat::bf16;
  }
  return WeightFormat::f32;
}

WeightFormat HostMatrix::format() const {
  if (blocks)
    return *weight_format(*blocks);
  return quantization ? quantization->format : format_of(dtype);
}

Result<WeightStack> stack_of(std::span<const HostMatrix> parts) {
  if (parts.empty() || parts[0].cols <= 0)
    return fail(ErrorCode::invalid_argument, "a weight without elements");
  WeightStack stack{parts[0].dtype, parts[0].format(), 0, parts[0].cols, true, {}};
  bool biased = false;
  for (const HostMatrix& part : parts) {
    if (part.cols != stack.inputs || part.format() != stack.format || part.rows <= 0)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("cannot pack a {} x {} matrix of {} below one of {} columns of {}",
                              part.rows, part.cols, to_string(part.format()), stack.inputs,
                              to_string(stack.format)));
    stack.outputs += part.rows;
    biased |= part.bias != nullptr;
    stack.int8_rows &= part.int8_rows;
  }
  stack.bias.resize(biased ? std::size_t(stack.outputs) : 0);
  std::ptrdiff_t first = 0;
  for (const HostMatrix& part : parts) {
    if (part.bias)
      std::copy_n(part.bias, part.rows, stack.bias.begin() + first);
    first += part.rows;
  }
  return stack;
}

} // namespace paceline::gpu
