#include "gpu/cpu/weight.hpp"

#include "base/bf16.hpp"
#include "gpu/cpu/encode_blocks.hpp"
#include "gpu/cpu/memory.hpp"
#include "gpu/shares.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace paceline::gpu::cpu {
namespace {

// Returns the position of (input, output of the tile) among a tile's elements.
std::size_t element(WeightFormat format, int input, int output) {
  if (format == WeightFormat::bf16)
    return (std::size_t(input / 2) * tile_outputs + std::size_t(output)) * 2 +
           std::size_t(input % 2);
  return std::size_t(input) * tile_outputs + std::size_t(output);
}

/// Numbers that are read from a file at a time: so few that they stay in a core's cache until they
/// are packed, so many that the system calls cost nothing.
constexpr std::size_t numbers_together = std::size_t(1) << 17;

/// Words of the codes of a block, at most: 256 codes of 6 bits.
constexpr int most_words = gguf::large / mx_block * 6;

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

// Transposes four rows of four units.
void transpose_four(std::byte* tile, const std::byte* rows, std::size_t stride) {
  Four in[4];
  for (std::size_t r = 0; r < 4; ++r)
    std::memcpy(&in[r], rows + r * stride, sizeof(Four));
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

// Writes so many units of each output, from the tile's start on. Unit: an element, or a pair that
// stays together. rows: `stride` bytes apart.
template <class Unit>
void transpose(std::byte* tile, const std::byte* rows, std::size_t units, std::size_t stride) {
  std::size_t i = 0;
  if constexpr (sizeof(Unit) == 4)
    for (; i + 4 <= units; i += 4, tile += 4 * tile_outputs * sizeof(Unit))
      for (std::size_t o = 0; o < tile_outputs; o += 4)
        transpose_four(tile + o * sizeof(Unit), rows + o * stride + i * sizeof(Unit), stride);
  for (; i < units; ++i)
    for (std::size_t o = 0; o < tile_outputs; ++o, tile += sizeof(Unit))
      std::memcpy(tile, rows + o * stride + i * sizeof(Unit), sizeof(Unit));
}

void fill_tile(DType dtype, std::byte* tile, const std::byte* rows, int inputs) {
  const std::size_t row_bytes = std::size_t(inputs) * size_of(dtype);
  if (dtype == DType::f16)
    return transpose<std::uint16_t>(tile, rows, row_bytes / 2, row_bytes);
  transpose<std::uint32_t>(tile, rows, row_bytes / 4, row_bytes); // f32, or a pair of bf16.
  if (dtype == DType::bf16 && inputs % 2 != 0)
    for (int o = 0; o < tile_outputs; ++o)
      std::memcpy(tile + 2 * element(WeightFormat::bf16, inputs - 1, o),
                  rows + std::size_t(o + 1) * row_bytes - 2, 2);
}

HostMatrix rows_of(const HostMatrix& all, int begin, int end) {
  HostMatrix part = all;
  part.data = static_cast<const std::byte*>(all.data) + std::size_t(begin) * all.row_bytes();
  if (all.block_scales)
    part.block_scales = all.block_scales + std::size_t(begin) * std::size_t(blocks_of(all.cols));
  part.rows = end - begin;
  return part;
}

/// Returns rows of a matrix, in `room` if they had to be read.
Result<HostMatrix> read_rows(const HostMatrix& all, int begin, int end,
                             std::vector<std::byte>& room) {
  HostMatrix rows = rows_of(all, begin, end);
  if (!all.file)
    return rows;
  const std::size_t bytes = std::size_t(rows.rows) * rows.row_bytes();
  room.resize(std::max(room.size(), bytes));
  const auto read =
      all.file->read(static_cast<const std::byte*>(rows.data), std::span(room).first(bytes));
  rows.data = room.data();
  return read.map([&] { return rows; });
}

constexpr int one_scale = 127; ///< The code of 2^0.

bool is_moderate(std::uint8_t scale) {
  return scale >= one_scale + least_moderate_scale && scale <= one_scale + most_moderate_scale;
}

/// Returns whether all elements are zero and the scale is not NaN, so that it means nothing.
bool is_zero(WeightFormat format, const MxBlock& block) {
  const MxElement& element = element_of(format);
  const int sign = element.integer() ? 0 : element.sign_bit();
  return block.scale != mx_nan_scale &&
         std::all_of(block.codes.begin(), block.codes.end(),
                     [&](std::uint8_t code) { return (code & ~sign) == 0; });
}

/// Returns whether every element has a negative: the lowest in two's complement has none. Only
/// files contain it, so encoding need not check.
bool has_negatives(WeightFormat format, const MxBlock& block) {
  const MxElement& element = element_of(format);
  return !element.integer() ||
         std::find(block.codes.begin(), block.codes.end(), element.sign_bit()) == block.codes.end();
}

/// Returns the bytes that all outputs of a tile have for a block beside the codes.
std::size_t record_bytes_of(const ScaledCodes& how) {
  const std::size_t numbers = how.least ? 2 : 1;
  const std::size_t of_parts = how.parts() > 1 ? std::size_t(how.parts()) : 0;
  return tile_outputs * numbers * (sizeof(gguf::half) + of_parts);
}

} // namespace

PackedWeight::PackedWeight(WeightFormat format, int outputs, int inputs)
    : format_(format), outputs_(outputs), inputs_(inputs),
      padded_inputs_(round_up(inputs, rounds_rows() ? tile_inputs : 2)),
      codes_(has_scaled_codes(format) ? &scaled_codes(format) : nullptr),
      record_bytes_(codes_          ? record_bytes_of(*codes_)
                    : is_mx(format) ? tile_outputs
                                    : 0) {
  const int records = codes_ ? padded_inputs_ / codes_->block : blocks();
  scale_bytes_ = std::size_t(round_up(records * int(record_bytes_), 64));
}

Result<std::shared_ptr<const Weight>> PackedWeight::pack(std::span<const HostMatrix> parts) {
  return pack_stacked(parts, pack_alike);
}

Result<std::shared_ptr<const Weight>> PackedWeight::pack_alike(std::span<const HostMatrix> parts) {
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
  weight->integers_ = stack->int8_rows ? integer_codes(weight->format_) : nullptr;
  if (is_mx(weight->format_))
    weight->moderate_.assign(std::size_t(weight->tiles()), 1);
  const auto tile_numbers = std::size_t(weight->padded_inputs()) * tile_outputs;
  const int together = int(std::max<std::size_t>(1, numbers_together / tile_numbers));
  Result<void> filled;
  std::mutex failing;
  for_shares(weight->tiles(), weight->bytes(), [&](int first, int last) {
    std::vector<std::byte> room;
    for (; first < last; first += together)
      if (auto some = weight->fill_tiles(parts, first, std::min(last, first + together), room);
          !some) {
        const std::lock_guard lock(failing);
        filled = std::move(some);
        return;
      }
  });
  return filled.map([&]() -> std::shared_ptr<const Weight> { return weight; });
}

Result<void> PackedWeight::fill_tiles(std::span<const HostMatrix> parts, int first_tile,
                                      int last_tile, std::vector<std::byte>& room) {
  int before = 0;
  for (const HostMatrix& part : parts) {
    const int begin = std::max(first_tile * tile_outputs - before, 0);
    const int end = std::min(last_tile * tile_outputs - before, part.rows);
    if (begin < end) {
      const auto rows = read_rows(part, begin, end, room);
      if (!rows)
        return tl::unexpected(rows.error());
      if (has_scaled_codes(format_))
        fill_codes(*rows, before + begin);
      else
        is_mx(format_) ? quantize(*rows, before + begin) : fill(*rows, before + begin);
    }
    before += part.rows;
  }
  return {};
}

void PackedWeight::fill(const HostMatrix& part, int first_output) {
  const std::size_t row_bytes = part.row_bytes();
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

void PackedWeight::quantize(const HostMatrix& part, int first_output) {
  const bool encodes = !part.block_scales && !part.blocks && highway_encode_blocks();
  std::vector<std::byte> room;
  for (int r = 0; r < part.rows;) {
    const int output = first_output + r;
    const bool whole = encodes && output % tile_outputs == 0 && r + tile_outputs <= part.rows;
    if (whole)
      quantize_tile(part, r, output / tile_outputs, room);
    else
      quantize_lane(part, r, output);
    r += whole ? tile_outputs : 1;
  }
}

void PackedWeight::quantize_tile(const HostMatrix& part, int first_row, int tile,
                                 std::vector<std::byte>& room) {
  room.resize(std::size_t(padded_inputs_) * tile_outputs * size_of(part.dtype)); // Zero at first.
  const HostMatrix rows = rows_of(part, first_row, first_row + tile_outputs);
  fill_tile(part.dtype, room.data(), static_cast<const std::byte*>(rows.data), inputs_);
  const Numbers numbers{part.dtype, room.data(), blocks()};
  std::uint8_t* const scales = scales_of(tile);
  highway_encode_blocks()(numbers, *part.quantization, scales, words_of(tile));
  if (!std::all_of(scales, scales + blocks() * tile_outputs, is_moderate))
    moderate_[std::size_t(tile)] = 0;
}

void PackedWeight::quantize_lane(const HostMatrix& part, int row, int output) {
  const int tile = output / tile_outputs;
  std::uint8_t* scale = scales_of(tile) + output % tile_outputs;
  std::uint32_t* to = words_of(tile) + output % tile_outputs;
  for (int first = 0; first < inputs_; first += mx_block, scale += tile_outputs) {
    const MxBlock block = block_of(part, row, first);
    *scale = is_zero(format_, block) ? one_scale : block.scale;
    if (!is_moderate(*scale) || !has_negatives(format_, block))
      moderate_[std::size_t(tile)] = 0;
    std::uint32_t words[8];
    pack_words(format_, block.codes.data(), words);
    for (int word = 0; word < element_bits(format_); ++word, to += tile_outputs)
      *to = words[word];
  }
}

void PackedWeight::fill_codes(const HostMatrix& part, int first_output) {
  const std::size_t stride = part.row_bytes();
  for (int row = 0; row < part.rows;) {
    const int output = first_output + row;
    const int rows = std::min(part.rows - row, tile_outputs - output % tile_outputs);
    const auto* from = static_cast<const std::byte*>(part.data) + std::size_t(row) * stride;
    if (format_ == WeightFormat::q8_0 && rows == tile_outputs)
      fill_bytes(from, stride, output / tile_outputs);
    else
      fill_blocks(from, stride, output, rows);
    row += rows;
  }
}

void PackedWeight::fill_blocks(const std::byte* from, std::size_t stride, int output, int rows) {
  const ScaledCodes& how = codes();
  std::array<ScaledBlock, tile_outputs> blocks;
  const std::span own(blocks.data(), std::size_t(rows));
  for (int i = 0; i < inputs_ / how.block; ++i, from += gpu::block_bytes(how.format)) {
    load_blocks(how, from, stride, own);
    fill_records(own, output, i);
    fill_words(own, output, i);
  }
}

void PackedWeight::fill_bytes(const std::byte* rows, std::size_t stride, int tile) {
  using gguf::Q8_0;
  auto* scale = reinterpret_cast<std::byte*>(scales_of(tile));
  auto* words = reinterpret_cast<std::byte*>(words_of(tile));
  for (int i = 0; i < inputs_ / mx_block; ++i, rows += sizeof(Q8_0)) {
    transpose<gguf::half>(scale, rows + offsetof(Q8_0, scale), 1, stride);
    transpose<std::uint32_t>(words, rows + offsetof(Q8_0, codes), mx_block / 4, stride);
    scale += record_bytes();
    words += block_bytes();
  }
}

void PackedWeight::fill_records(std::span<const ScaledBlock> blocks, int output, int index) {
  const ScaledCodes& how = codes();
  const auto parts = std::size_t(how.parts() > 1 ? how.parts() : 0);
  const int lane = output % tile_outputs;
  std::byte* const record = data_ + std::size_t(output / tile_outputs) * tile_bytes() +
                            std::size_t(index) * record_bytes();
  auto* halves = reinterpret_cast<gguf::half*>(record) + lane;
  auto* bytes = reinterpret_cast<std::int8_t*>(record) +
                tile_outputs * (1 + how.least) * int(sizeof(gguf::half)) + lane;
  for (const ScaledBlock& block : blocks) {
    if (how.least)
      halves[tile_outputs] = block.least;
    *halves++ = block.scale;
    std::int8_t* to = bytes++;
    for (std::size_t part = 0; part < parts; ++part, to += tile_outputs) {
      *to = block.scales[part];
      if (how.least)
        *(to += tile_outputs) = block.leasts[part];
    }
  }
}

void PackedWeight::fill_words(std::span<const ScaledBlock> blocks, int output, int index) {
  const ScaledCodes& how = codes();
  const int count = how.block / mx_block * how.bits;
  std::array<std::uint32_t, tile_outputs * most_words> words; // [output][count]
  with_bits(how.bits, [&](auto bits) {
    std::uint32_t* to = words.data();
    for (const ScaledBlock& block : blocks)
      for (int first = 0; first < how.block; first += mx_block, to += bits)
        pack_words<bits>(block.codes.data() + first, to);
  });
  std::uint32_t* const to = words_of(output / tile_outputs) + index * count * tile_outputs;
  const std::size_t row_bytes = std::size_t(count) * sizeof(std::uint32_t);
  const auto* const rows = reinterpret_cast<const std::byte*>(words.data());
  if (blocks.size() == tile_outputs)
    return transpose<std::uint32_t>(reinterpret_cast<std::byte*>(to), rows, std::size_t(count),
                                    row_bytes);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (int word = 0; word < count; ++word)
      to[word * tile_outputs + output % tile_outputs + int(i)] =
          words[i * std::size_t(count) + std::size_t(word)];
}

ScaledBlock PackedWeight::read_block(int output, int index) const {
  const ScaledCodes& how = codes();
  const int lane = output % tile_outputs;
  const std::byte* const at = tile(output / tile_outputs);
  const auto* halves =
      reinterpret_cast<const gguf::half*>(at + std::size_t(index) * record_bytes()) + lane;
  ScaledBlock block;
  block.scale = *halves;
  block.least = how.least ? halves[tile_outputs] : gguf::half(0);
  block.scales[0] = block.leasts[0] = 1;
  const auto* bytes =
      reinterpret_cast<const std::int8_t*>(halves - lane + tile_outputs * (1 + how.least)) + lane;
  for (std::size_t part = 0; how.parts() > 1 && part < std::size_t(how.parts()); ++part) {
    block.scales[part] = *bytes;
    bytes += tile_outputs;
    if (how.least) {
      block.leasts[part] = *bytes;
      bytes += tile_outputs;
    }
  }
  const auto* from = reinterpret_cast<const std::uint32_t*>(at + scale_bytes()) + lane +
                     index * (how.block / 32 * how.bits * tile_outputs);
  for (int first = 0; first < how.block; first += 32) {
    std::uint32_t words[8];
    for (int word = 0; word < how.bits; ++word, from += tile_outputs)
      words[word] = *from;
    unpack_words(how.bits, words, block.codes.data() + first);
  }
  return block;
}

void PackedWeight::read_output(int output, float* values) const {
  if (has_scaled_codes(format_)) {
    for (int i = 0; i < inputs_ / codes().block; ++i)
      decode_block(codes(), read_block(output, i), values + i * codes().block);
    return;
  }
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

MxBlock PackedWeight::read_mx_block(int output, int index) const {
  const std::byte* const at = tile(output / tile_outputs);
  const int lane = output % tile_outputs;
  MxBlock block{reinterpret_cast<const std::uint8_t*>(at)[index * tile_outputs + lane], {}};
  const auto* from = reinterpret_cast<const std::uint32_t*>(at + scale_bytes()) + lane +
                     index * bits() * tile_outputs;
  std::uint32_t words[8];
  for (int word = 0; word < bits(); ++word, from += tile_outputs)
    words[word] = *from;
  unpack_words(format_, words, block.codes.data());
  return block;
}

void PackedWeight::read_blocks(int output, float* values) const {
  for (int first = 0; first < inputs_; first += mx_block) {
    float all[mx_block];
    decode_block(format_, read_mx_block(output, first / mx_block), all);
    std::copy_n(all, std::min(mx_block, inputs_ - first), values + first);
  }
}

void PackedWeight::read_integers(int output, Integers& to) const {
  to = {};
  const auto add_scale = [](std::vector<float>& all, gguf::half whole, std::int8_t part) {
    all.push_back(base::to_float(std::bit_cast<base::f16>(whole)) * float(part));
  };
  if (is_mx(format_)) {
    for (int i = 0; i < blocks(); ++i) {
      const MxBlock block = read_mx_block(output, i);
      to.scales.push_back(decode_scale(block.scale) * integers_->unit);
      for (const std::uint8_t code : block.codes)
        to.numbers.push_back(
            std::int8_t(integers_->number(bits() == 6 ? six_bits(format_).of_code[code] : code)));
    }
    return;
  }
  for (int i = 0; i < inputs_ / codes().block; ++i) {
    const ScaledBlock block = read_block(output, i);
    for (std::size_t part = 0; part < std::size_t(codes().parts()); ++part) {
      add_scale(to.scales, block.scale, block.scales[part]);
      if (has_least())
        add_scale(to.leasts, block.least, block.leasts[part]);
    }
    for (int input = 0; input < codes().block; ++input)
      to.numbers.push_back(std::int8_t(integers_->number(block.codes[std::size_t(input)])));
  }
}

} // namespace paceline::gpu::cpu
