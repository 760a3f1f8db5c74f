#include "gpu/cpu/weight.hpp"

#include "base/bf16.hpp"
#include "gpu/cpu/memory.hpp"
#include "gpu/shares.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace paceline::gpu::cpu {
namespace {

// Position of (input, output of the tile) in a tile's elements.
std::size_t element(DType dtype, int input, int output) {
  if (dtype == DType::bf16)
    return (std::size_t(input / 2) * tile_outputs + std::size_t(output)) * 2 +
           std::size_t(input % 2);
  return std::size_t(input) * tile_outputs + std::size_t(output);
}

int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

template <class Bits>
void scatter_row(DType dtype, std::byte* tile, int output, const std::byte* row, int inputs) {
  auto* to = reinterpret_cast<Bits*>(tile);
  for (int i = 0; i < inputs; ++i)
    std::memcpy(to + element(dtype, i, output), row + std::size_t(i) * sizeof(Bits), sizeof(Bits));
}

using Four [[gnu::vector_size(16)]] = std::uint32_t;

// Four rows of four units, as columns.
void transpose_four(std::byte* tile, const std::byte* rows, std::size_t row_bytes) {
  Four in[4];
  for (std::size_t r = 0; r < 4; ++r)
    std::memcpy(&in[r], rows + r * row_bytes, sizeof(Four));
  const Four low_01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  const Four high_01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  const Four low_23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  const Four high_23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  const Four out[] = {__builtin_shufflevector(low_01, low_23, 0, 1, 4, 5),
                      __builtin_shufflevector(low_01, low_23, 2, 3, 6, 7),
                      __builtin_shufflevector(high_01, high_23, 0, 1, 4, 5),
                      __builtin_shufflevector(high_01, high_23, 2, 3, 6, 7)};
  for (std::size_t i = 0; i < 4; ++i)
    std::memcpy(tile + i * tile_outputs * sizeof(std::uint32_t), &out[i], sizeof(Four));
}

// A whole tile, written from its start to its end. Unit: what stays together, an element or a pair.
template <class Unit>
void transpose(std::byte* tile, const std::byte* rows, std::size_t row_bytes) {
  const std::size_t units = row_bytes / sizeof(Unit);
  std::size_t i = 0;
  if constexpr (sizeof(Unit) == 4)
    for (; i + 4 <= units; i += 4, tile += 4 * tile_outputs * sizeof(Unit))
      for (std::size_t o = 0; o < tile_outputs; o += 4)
        transpose_four(tile + o * sizeof(Unit), rows + o * row_bytes + i * sizeof(Unit), row_bytes);
  for (; i < units; ++i)
    for (std::size_t o = 0; o < tile_outputs; ++o, tile += sizeof(Unit))
      std::memcpy(tile, rows + o * row_bytes + i * sizeof(Unit), sizeof(Unit));
}

void fill_tile(DType dtype, std::byte* tile, const std::byte* rows, int inputs) {
  const std::size_t row_bytes = std::size_t(inputs) * size_of(dtype);
  if (dtype == DType::f16)
    return transpose<std::uint16_t>(tile, rows, row_bytes);
  transpose<std::uint32_t>(tile, rows, row_bytes); // f32, or a pair of bf16.
  if (dtype == DType::bf16 && inputs % 2 != 0)
    for (int o = 0; o < tile_outputs; ++o)
      std::memcpy(tile + 2 * element(dtype, inputs - 1, o),
                  rows + std::size_t(o + 1) * row_bytes - 2, 2);
}

HostMatrix rows_of(const HostMatrix& all, int begin, int end) {
  const std::size_t row_bytes = std::size_t(all.cols) * size_of(all.dtype);
  HostMatrix part = all;
  part.data = static_cast<const std::byte*>(all.data) + std::size_t(begin) * row_bytes;
  part.rows = end - begin;
  return part;
}

} // namespace

PackedWeight::PackedWeight(DType dtype, int outputs, int inputs)
    : dtype_(dtype), outputs_(outputs), inputs_(inputs),
      padded_inputs_(round_up(inputs, dtype == DType::bf16 ? tile_inputs : 2)) {}

Result<std::shared_ptr<const Weight>> PackedWeight::pack(std::span<const HostMatrix> parts) {
  const auto stack = stack_of(parts);
  if (!stack)
    return tl::unexpected(stack.error());
  std::shared_ptr<PackedWeight> weight(
      new PackedWeight(stack->dtype, stack->outputs, stack->inputs));
  auto memory = allocate_host(std::size_t(weight->tiles()) * weight->tile_bytes());
  if (!memory)
    return tl::unexpected(memory.error());
  weight->memory_ = std::move(*memory);
  weight->data_ = weight->memory_->data();
  weight->bias_ = stack->bias;
  for_shares(weight->tiles(), weight->bytes(), [&](int first_tile, int last_tile) {
    int before = 0;
    for (const HostMatrix& part : parts) {
      const int begin = std::max(first_tile * tile_outputs - before, 0);
      const int end = std::min(last_tile * tile_outputs - before, part.rows);
      if (begin < end)
        weight->fill(rows_of(part, begin, end), before + begin);
      before += part.rows;
    }
  });
  return weight;
}

void PackedWeight::fill(const HostMatrix& part, int first_output) {
  const std::size_t row_bytes = std::size_t(part.cols) * size_of(part.dtype);
  for (int r = 0; r < part.rows;) {
    const int output = first_output + r;
    std::byte* tile = data_ + std::size_t(output / tile_outputs) * tile_bytes();
    const auto* row = static_cast<const std::byte*>(part.data) + std::size_t(r) * row_bytes;
    const bool whole = output % tile_outputs == 0 && r + tile_outputs <= part.rows;
    if (whole)
      fill_tile(dtype_, tile, row, part.cols);
    else if (dtype_ == DType::f32)
      scatter_row<std::uint32_t>(dtype_, tile, output % tile_outputs, row, part.cols);
    else
      scatter_row<std::uint16_t>(dtype_, tile, output % tile_outputs, row, part.cols);
    r += whole ? tile_outputs : 1;
  }
}

void PackedWeight::read_output(int output, float* values) const {
  const std::byte* from = tile(output / tile_outputs);
  for (int i = 0; i < inputs_; ++i) {
    const std::size_t at = element(dtype_, i, output % tile_outputs);
    switch (dtype_) {
    case DType::f32: values[i] = reinterpret_cast<const float*>(from)[at]; break;
    case DType::f16:
      values[i] = base::to_float(reinterpret_cast<const base::f16*>(from)[at]);
      break;
    case DType::bf16:
      values[i] = base::to_float(reinterpret_cast<const base::bf16*>(from)[at]);
      break;
    }
  }
}

} // namespace paceline::gpu::cpu
