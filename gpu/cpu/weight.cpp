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
std::size_t element(WeightFormat format, int input, int output) {
  if (format == WeightFormat::bf16)
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
    std::memcpy(to + element(format_of(dtype), i, output), row + std::size_t(i) * sizeof(Bits),
                sizeof(Bits));
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
      std::memcpy(tile + 2 * element(WeightFormat::bf16, inputs - 1, o),
                  rows + std::size_t(o + 1) * row_bytes - 2, 2);
}

/// Where a word of an output is among those of its block.
int word_index(int bits, int word, int output) {
  if (bits != 4)
    return word * tile_outputs + output;
  return word / 2 * 2 * tile_outputs + output / 4 * 8 + word % 2 * 4 + output % 4;
}

std::size_t stored_row_bytes(const HostMatrix& matrix) {
  if (!matrix.block_scales)
    return std::size_t(matrix.cols) * size_of(matrix.dtype);
  return std::size_t(blocks_of(matrix.cols) * code_bytes(element_bits(matrix.format())));
}

HostMatrix rows_of(const HostMatrix& all, int begin, int end) {
  HostMatrix part = all;
  part.data = static_cast<const std::byte*>(all.data) + std::size_t(begin) * stored_row_bytes(all);
  if (all.block_scales)
    part.block_scales = all.block_scales + std::size_t(begin) * std::size_t(blocks_of(all.cols));
  part.rows = end - begin;
  return part;
}

} // namespace

PackedWeight::PackedWeight(WeightFormat format, int outputs, int inputs)
    : format_(format), outputs_(outputs), inputs_(inputs),
      padded_inputs_(round_up(inputs, rounds_rows() ? tile_inputs : 2)) {}

std::size_t PackedWeight::scale_bytes() const {
  return is_mx(format_) ? std::size_t(round_up(blocks() * tile_outputs, 64)) : 0;
}

Result<std::shared_ptr<const Weight>> PackedWeight::pack(std::span<const HostMatrix> parts) {
  const auto stack = stack_of(parts);
  if (!stack)
    return tl::unexpected(stack.error());
  std::shared_ptr<PackedWeight> weight(
      new PackedWeight(stack->format, stack->outputs, stack->inputs));
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
      if (begin < end && part.quantization)
        weight->quantize(rows_of(part, begin, end), before + begin);
      else if (begin < end)
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
      fill_tile(part.dtype, tile, row, part.cols);
    else if (part.dtype == DType::f32)
      scatter_row<std::uint32_t>(part.dtype, tile, output % tile_outputs, row, part.cols);
    else
      scatter_row<std::uint16_t>(part.dtype, tile, output % tile_outputs, row, part.cols);
    r += whole ? tile_outputs : 1;
  }
}

// Block by block of the rows of one tile, whose words lie side by side.
void PackedWeight::quantize(const HostMatrix& part, int first_output) {
  const int bits = element_bits(format_);
  for (int begin = 0, end = 0; begin < part.rows; begin = end) {
    const int first_lane = (first_output + begin) % tile_outputs;
    end = std::min(begin + tile_outputs - first_lane, part.rows);
    std::byte* const tile =
        data_ + std::size_t((first_output + begin) / tile_outputs) * tile_bytes();
    auto* scales = reinterpret_cast<std::uint8_t*>(tile) + first_lane;
    auto* to = reinterpret_cast<std::uint16_t*>(tile + scale_bytes());
    for (int first = 0; first < inputs_; first += mx_block) {
      for (int r = begin; r < end; ++r) {
        const MxBlock block = block_of(part, r, first);
        scales[r - begin] = block.scale;
        std::uint16_t words[mx_block / 2];
        pack_words(bits, block.codes.data(), words);
        for (int word = 0; word < 2 * bits; ++word)
          to[word_index(bits, word, first_lane + r - begin)] = words[word];
      }
      scales += tile_outputs;
      to += 2 * bits * tile_outputs;
    }
  }
}

void PackedWeight::read_output(int output, float* values) const {
  if (is_mx(format_))
    return read_blocks(output, values);
  const std::byte* from = tile(output / tile_outputs);
  for (int i = 0; i < inputs_; ++i) {
    const std::size_t at = element(format_, i, output % tile_outputs);
    switch (format_) {
    case WeightFormat::f32: values[i] = reinterpret_cast<const float*>(from)[at]; break;
    case WeightFormat::f16:
      values[i] = base::to_float(reinterpret_cast<const base::f16*>(from)[at]);
      break;
    default: values[i] = base::to_float(reinterpret_cast<const base::bf16*>(from)[at]); break;
    }
  }
}

void PackedWeight::read_blocks(int output, float* values) const {
  const int bits = element_bits(format_);
  const int lane = output % tile_outputs;
  const auto* scales = reinterpret_cast<const std::uint8_t*>(tile(output / tile_outputs)) + lane;
  const std::byte* words_of_tile = tile(output / tile_outputs) + scale_bytes();
  const auto* from = reinterpret_cast<const std::uint16_t*>(words_of_tile);
  for (int first = 0; first < inputs_; first += mx_block, scales += tile_outputs) {
    MxBlock block{*scales, {}};
    std::uint16_t words[mx_block / 2];
    for (int word = 0; word < 2 * bits; ++word)
      words[word] = from[word_index(bits, word, lane)];
    from += 2 * bits * tile_outputs;
    unpack_words(bits, words, block.codes.data());
    float all[mx_block];
    decode_block(format_, block, all);
    std::copy_n(all, std::min(mx_block, inputs_ - first), values + first);
  }
}

void pack_words(int bits, const std::uint8_t* codes, std::uint16_t* words) {
  for (int i = 0; i < mx_block; i += 8, codes += 8, words += bits / 2)
    switch (bits) {
    case 8:
      for (int j = 0; j < 4; ++j)
        words[j] = std::uint16_t(codes[2 * j] << 8 | codes[2 * j + 1]);
      break;
    case 6:
      words[0] = std::uint16_t(codes[0] << 10 | codes[1] << 4 | codes[6] >> 2);
      words[1] =
          std::uint16_t(codes[2] << 10 | codes[3] << 4 | (codes[6] & 3) << 2 | codes[7] >> 4);
      words[2] = std::uint16_t(codes[4] << 10 | codes[5] << 4 | (codes[7] & 15));
      break;
    default:
      words[0] = std::uint16_t(codes[0] | codes[4] << 4 | codes[1] << 8 | codes[5] << 12);
      words[1] = std::uint16_t(codes[2] | codes[6] << 4 | codes[3] << 8 | codes[7] << 12);
    }
}

void unpack_words(int bits, const std::uint16_t* words, std::uint8_t* codes) {
  for (int i = 0; i < mx_block; i += 8, codes += 8, words += bits / 2)
    switch (bits) {
    case 8:
      for (int j = 0; j < 8; ++j)
        codes[j] = std::uint8_t(words[j / 2] >> (j % 2 == 0 ? 8 : 0));
      break;
    case 6:
      for (int j = 0; j < 6; ++j)
        codes[j] = std::uint8_t(words[j / 2] >> (j % 2 == 0 ? 10 : 4) & 63);
      codes[6] = std::uint8_t((words[0] & 15) << 2 | (words[1] >> 2 & 3));
      codes[7] = std::uint8_t((words[1] & 3) << 4 | (words[2] & 15));
      break;
    default:
      for (int j = 0; j < 8; ++j)
        codes[j] = std::uint8_t(words[j / 2 % 2] >> (j / 4 * 4 + j % 2 * 8) & 15);
    }
}

} // namespace paceline::gpu::cpu
