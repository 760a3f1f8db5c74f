// Weight matrices in the layout that all CPU kernels read.
#pragma once

#include "gpu/cpu/integer_codes.hpp"
#include "gpu/cpu/packed_words.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::gpu::cpu {

/// Number of outputs that are side by side in a packed weight.
inline constexpr int tile_outputs = 16;
/// Inputs are padded with zeros to a multiple of this (for f32 and f16: of two).
inline constexpr int tile_inputs = 32;
static_assert(tile_inputs == mx_block);

/// Tiles of a weight that a rank multiplies in one go.
struct TileRun {
  int first = 0;
  int last = 0;  ///< Behind the last one.
  int next = -1; ///< What the rank multiplies next, which kernels may fetch ahead; -1: not known.

  bool empty() const { return first == last; }
  /// Returns what follows the tiles up to `end`, a part of the run.
  int behind(int end) const { return end < last ? end : next; }
};

/// A packed weight: tiles of 16 outputs, padded with zero outputs, one after another.
/// f32, f16: a tile is [input][output]; a vector of outputs is one load.
/// bf16: a tile is [input / 2][output][input % 2]; 32 inputs of it are the 1 KiB operand of an AMX
/// product, and a 32-bit lane shifted or masked is one of two inputs of an output in f32.
/// Microscaling: the scales of every block of 32 inputs, [block][output], filled up to 64 bytes;
/// then for each block 32-bit words in the order of pack_words, [word][output]. The values are bf16
/// numbers: a product is, bit for bit, that of the bf16 weight with the same numbers.
/// Scaled codes (gguf_blocks.hpp): records of all blocks, filled up to 64 bytes together, then the
/// codes in words as in microscaling. A record is [output] of the block's scales and, if there are
/// any, of its least values, as halves; then, if blocks have several parts, the same of each part,
/// as bytes.
class PackedWeight final : public Weight {
public:
  /// Packs the parts; into a StackedWeight if their formats differ and all of them round rows.
  static Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts);

  int outputs() const override { return outputs_; }
  int inputs() const override { return inputs_; }
  WeightFormat format() const override { return format_; }
  std::size_t bytes() const override { return memory_->size() + bias_.size() * sizeof(float); }
  bool rounds_to_int8() const override { return integers_ != nullptr; }

  int tiles() const { return (outputs_ + tile_outputs - 1) / tile_outputs; }
  int padded_inputs() const { return padded_inputs_; }
  /// Returns whether rows that are multiplied with the weight are rounded to bf16.
  bool rounds_rows() const { return format_ >= WeightFormat::bf16; }
  std::size_t tile_bytes() const { return scale_bytes() + element_bytes(); }
  const std::byte* tile(int index) const { return data_ + std::size_t(index) * tile_bytes(); }
  /// Returns the bits of an element, or of its code.
  int bits() const { return has_scaled_codes(format_) ? codes().bits : element_bits(format_); }
  /// Return the bytes of a tile before its elements, and the bytes of 32 elements in all outputs,
  /// for microscaling and scaled codes.
  std::size_t scale_bytes() const { return scale_bytes_; }
  std::size_t block_bytes() const { return std::size_t(bits()) * 64; }
  /// Return how scaled codes are coded, and the bytes of a record of their scales.
  const ScaledCodes& codes() const { return *codes_; }
  std::size_t record_bytes() const { return record_bytes_; }
  /// Returns the integers of the codes if rows that are multiplied with the weight are rounded to 8
  /// bits; else null.
  const IntegerCodes* integers() const { return integers_; }
  /// Returns whether parts have least values.
  bool has_least() const { return codes_ && codes_->least; }
  /// Returns the number of parts of a row, each with a scale.
  int parts() const { return padded_inputs_ / codes().part; }
  int blocks() const { return padded_inputs_ / mx_block; }
  /// Returns whether a tile of microscaling has scales from 2^least_moderate_scale to
  /// 2^most_moderate_scale only, except in blocks that are zero, and a negative of every element.
  bool moderate(int tile) const { return moderate_[std::size_t(tile)] != 0; }

  /// Returns the bytes that a tile has if its numbers are bf16.
  std::size_t bf16_tile_bytes() const { return std::size_t(padded_inputs_) * tile_outputs * 2; }

  /// Returns the bias, [outputs], or null if the weight has none.
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  /// Reads all inputs of one output, as f32. values: [inputs]
  void read_output(int output, float* values) const;
  /// An output's numbers, [padded inputs], and the scales and least values of its parts.
  struct Integers {
    std::vector<std::int8_t> numbers;
    std::vector<float> scales;
    std::vector<float> leasts; ///< Empty if there are none.
  };
  /// Reads the integers of one output; `integers` is not null.
  void read_integers(int output, Integers& to) const;

private:
  PackedWeight(WeightFormat format, int outputs, int inputs);
  Result<void> fill_tiles(std::span<const HostMatrix> parts, int first_tile, int last_tile,
                          std::vector<std::byte>& room);
  static Result<std::shared_ptr<const Weight>> pack_alike(std::span<const HostMatrix> parts);
  void fill(const HostMatrix& part, int first_output);
  void fill_codes(const HostMatrix& part, int first_output);
  /// Fills a tile with 16 rows of Q8_0, whose words are those of the file.
  void fill_bytes(const std::byte* rows, std::size_t stride, int tile);
  /// Fills up to 16 rows of a tile, from `output` on.
  void fill_blocks(const std::byte* from, std::size_t stride, int output, int rows);
  void fill_records(std::span<const ScaledBlock> blocks, int output, int index);
  void fill_words(std::span<const ScaledBlock> blocks, int output, int index);
  ScaledBlock read_block(int output, int index) const;
  MxBlock read_mx_block(int output, int index) const;
  void quantize(const HostMatrix& part, int first_output);
  void quantize_tile(const HostMatrix& part, int first_row, int tile, std::vector<std::byte>& room);
  void quantize_lane(const HostMatrix& part, int row, int output);
  std::uint8_t* scales_of(int tile) {
    return reinterpret_cast<std::uint8_t*>(data_ + std::size_t(tile) * tile_bytes());
  }
  std::uint32_t* words_of(int tile) {
    return reinterpret_cast<std::uint32_t*>(data_ + std::size_t(tile) * tile_bytes() +
                                            scale_bytes());
  }
  void read_blocks(int output, float* values) const;
  std::size_t element_bytes() const {
    return std::size_t(padded_inputs_) * tile_outputs * std::size_t(bits()) / 8;
  }

  WeightFormat format_;
  int outputs_;
  int inputs_;
  int padded_inputs_;
  const ScaledCodes* codes_; ///< Null: the weight has no scaled codes.
  const IntegerCodes* integers_ = nullptr;
  std::size_t record_bytes_;
  std::size_t scale_bytes_;
  std::vector<float> bias_;
  std::shared_ptr<Buffer> memory_;
  std::byte* data_ = nullptr;
  std::vector<std::uint8_t> moderate_; // [tiles]
};

/// Exponents of scales within which kernels may keep sums in the blocks' own units (highway_mx.cpp,
/// avx512_mx.cpp).
inline constexpr int least_moderate_scale = -31;
inline constexpr int most_moderate_scale = 8;

} // namespace paceline::gpu::cpu
