// The host's part of the kernels: packing of weights, and the cutting of rows into tiles.
#include "gpu/cuda/layout.hpp"
#include "gpu/cuda/span_layout.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace paceline::gpu::cuda::kernels {
namespace {

// Writes one output's inputs to its tile. Bits: an unsigned type of an element's size.
template <class Bits>
void scatter(const PackedLayout& layout, int output, const std::byte* row, std::byte* tile) {
  auto* const to = reinterpret_cast<Bits*>(tile);
  for (int i = 0; i < layout.inputs; ++i)
    std::memcpy(to + weight_element(layout, output, i), row + std::size_t(i) * sizeof(Bits),
                sizeof(Bits));
}

void scatter(const PackedLayout& layout, const HostMatrix& part, int row, int output,
             std::byte* tile) {
  const auto* from = static_cast<const std::byte*>(part.data) +
                     std::size_t(row) * std::size_t(layout.inputs) * size_of(part.dtype);
  if (part.dtype == DType::f32)
    scatter<std::uint32_t>(layout, output, from, tile);
  else
    scatter<std::uint16_t>(layout, output, from, tile);
}

// Writes a code to its tile, which is zero there.
void put_code(WeightFormat format, unsigned code, int output, int input, std::byte* tile) {
  auto* const words = reinterpret_cast<std::uint32_t*>(tile + std::size_t(input / span_inputs) *
                                                                  span_bytes(format));
  const int bits = code_bits(format);
  const int lane = output % 8 * 4 + input % 8 / 2;
  const int pair = input % run_inputs / step_inputs * 4 + input % step_inputs / 8 * 2 + output / 8;
  each_part(bits, input % span_inputs / run_inputs, pair, code, [&](int word, unsigned part) {
    words[code_word(bits, lane, word)] |= part << (16 * (input % 2));
  });
}

void put_mx(const HostMatrix& part, int row, int output, std::byte* tile) {
  const WeightFormat format = part.format();
  for (int first = 0; first < part.cols; first += mx_block) {
    const MxBlock block = block_of(part, row, first);
    std::byte* const span = tile + std::size_t(first / span_inputs) * span_bytes(format);
    span[scale_word(code_bits(format), output % 8) * 4 +
         scale_byte(output, first % span_inputs / run_inputs)] = std::byte(block.scale);
    if (block.scale == mx_nan_scale)
      continue; // It acts as infinity, which makes codes of zero NaN.
    for (int i = 0; i < mx_block; ++i)
      put_code(format, block.codes[std::size_t(i)], output, first + i, tile);
  }
}

// Writes what a block's codes are multiplied by to the records of all its spans. first: the block's
// first input.
void put_record(WeightFormat format, const ScaledBlock& block, int output, int first,
                std::byte* tile) {
  const ScaledCodes& how = scaled_codes(format);
  const ScaledRecord record = ScaledRecord::of(how);
  const int upper = output / 8;
  for (int input = first; input < first + how.block; input += std::min(how.block, span_inputs)) {
    std::byte* const span = tile + std::size_t(input / span_inputs) * span_bytes(format);
    std::byte* const at = span + record_word(how.bits, record.words(), output % 8) * 4;
    for (int number = 0; number < record.numbers; ++number) {
      const gguf::half half = number == 0 ? block.scale : block.least;
      const int own = input % span_inputs / how.block;
      std::memcpy(at + record.half(number, own, upper) * int(sizeof half), &half, sizeof half);
      const auto& bytes = number == 0 ? block.scales : block.leasts;
      for (int part = 0; part < record.parts; ++part)
        at[record.byte(number, part, upper)] =
            std::byte(bytes[std::size_t((input - first) / how.part + part)] + 128);
    }
  }
}

void put_scaled(const HostMatrix& part, int row, int output, std::byte* tile) {
  const WeightFormat format = part.format();
  const ScaledCodes& how = scaled_codes(format);
  const auto* from =
      static_cast<const std::byte*>(part.data) +
      std::size_t(row) * std::size_t(part.cols / how.block) * block_bytes(how.format);
  ScaledBlock block;
  for (int first = 0; first < part.cols; first += how.block, from += block_bytes(how.format)) {
    load_blocks(how, from, 0, {&block, 1});
    put_record(format, block, output, first, tile);
    for (int i = 0; i < how.block; ++i)
      put_code(format, block.codes[std::size_t(i)], output, first + i, tile);
  }
}

} // namespace

PackedLayout PackedLayout::of(WeightFormat format, int outputs, int inputs) {
  PackedLayout layout{format, outputs, inputs};
  layout.tile_bytes =
      in_spans(format) ? std::size_t((inputs + span_inputs - 1) / span_inputs) * span_bytes(format)
                       : std::size_t(layout.padded_inputs() * tile_outputs) *
                             std::size_t(element_bits(format) / 8);
  return layout;
}

void pack(const PackedLayout& layout, std::span<const HostMatrix> parts, int first_tile,
          int last_tile, std::byte* image) {
  std::memset(image, 0, std::size_t(last_tile - first_tile) * layout.tile_bytes);
  const int begin = first_tile * tile_outputs;
  const int end = std::min(last_tile * tile_outputs, layout.outputs);
  int before = 0; // Outputs of the parts already passed.
  for (const HostMatrix& part : parts) {
    assert(part.cols == layout.inputs && part.format() == layout.format);
    for (int o = std::max(begin, before); o < std::min(end, before + part.rows); ++o) {
      std::byte* tile = image + std::size_t(o / tile_outputs - first_tile) * layout.tile_bytes;
      if (is_mx(layout.format))
        put_mx(part, o - before, o % tile_outputs, tile);
      else if (has_scaled_codes(layout.format))
        put_scaled(part, o - before, o % tile_outputs, tile);
      else
        scatter(layout, part, o - before, o % tile_outputs, tile);
    }
    before += part.rows;
  }
}

std::size_t staged_bytes(int rows, int cols) {
  const auto row_tiles = std::size_t((rows + tile_rows - 1) / tile_rows);
  return row_tiles * tile_rows * std::size_t(staged_steps(cols) * step_inputs) *
         sizeof(std::uint16_t);
}

std::vector<RowTile> tile_rows_of(std::span<const std::int32_t> sequence, int heads, int kv_heads) {
  const int most = head_groups(heads, kv_heads).rows;
  std::vector<RowTile> tiles;
  for (std::size_t r = 0; r < sequence.size(); ++r) {
    if (r > 0 && sequence[r] == sequence[r - 1] && tiles.back().count < most)
      ++tiles.back().count;
    else
      tiles.push_back({std::int32_t(r), 1});
  }
  return tiles;
}

} // namespace paceline::gpu::cuda::kernels
