// Products with weights of scaled codes on AMX tiles: the order of parts, rows and tiles
// (amx_parts.hpp has the arithmetic), for rows of bf16 and of 8 bits. Of bf16, vectors compute one
// row or two with the same bits, but faster.
#include "gpu/cpu/amx_codes.hpp"

#include "gpu/cpu/amx_parts.hpp"
#include "gpu/cpu/avx512_codes.hpp"
#include "gpu/cpu/avx512_int8.hpp"
#include "gpu/cpu/avx512_sums.hpp"
#include "gpu/cpu/int8_rows.hpp"

#if defined(__x86_64__)

#include <cstring>

PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// Inputs whose codes are decoded at a time, which then stay in the first-level cache.
constexpr int chunk_inputs = 256;
/// Tiles whose codes are decoded together for many rows, and inputs of each at a time.
constexpr int decoded_together = 4;
constexpr int many_inputs = 128;

/// Bytes of an input of a tile, of whatever numbers.
constexpr int most_decoded_input = 2 * tile_outputs;

/// Prefetches into the first-level cache, where decoding would have left them, and returns `from`.
const std::byte* prefetched(const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + at), _MM_HINT_T0);
  return from;
}

/// Returns inputs [begin, end) of a tile as they are multiplied, where they are so already, or
/// decoded to `room`: [end - begin] * CodesProduct::decoded_input bytes.
const std::byte* decoded_codes(const PackedWeight& w, int tile, int begin, int end,
                               std::byte* room) {
  if (!w.integers())
    avx512_decode_codes(w, tile, begin, end, room);
  else if (w.bits() == 8)
    return prefetched(w.tile(tile) + w.scale_bytes() + std::size_t(begin) * tile_outputs,
                      std::size_t(end - begin) * tile_outputs);
  else
    avx512_decode_int8(w, tile, begin, end, room);
  return room;
}

void finish_codes(const CodesProduct& p, const float* sums, int row, int rows, int tile) {
  for (int r = 0; r < rows; ++r)
    finish(p.out, p.w, p.add, _mm512_load_ps(sums + r * tile_outputs), row + r, tile);
}

/// Prefetches from memory what is needed some time after a chunk; the tiles are one stream.
void ask_ahead(const PackedWeight& w, int tile, int from, int to) {
  constexpr std::size_t distance = 16384;
  const std::size_t bytes = w.tile_bytes();
  const auto inputs = std::size_t(w.padded_inputs());
  const std::byte* at = w.tile(tile) + distance + bytes * std::size_t(from) / inputs;
  const std::byte* const end = w.tile(tile) + distance + bytes * std::size_t(to) / inputs;
  for (; at < end; at += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

/// A chunk of a tile's inputs, decoded at a time.
struct Chunk {
  int tile;
  int begin; ///< First of its inputs.

  int end(const PackedWeight& w) const { return std::min(begin + chunk_inputs, w.padded_inputs()); }
  Chunk next(const PackedWeight& w) const {
    return end(w) < w.padded_inputs() ? Chunk{tile, end(w)} : Chunk{tile + 1, 0};
  }
};

/// Multiplies up to 16 rows. A chunk is decoded while the one before it is multiplied, because tile
/// loads wait until the data has left the processor's store queue.
void few_rows_of_codes(const CodesProduct& p, int first, int last) {
  const PackedWeight& w = p.w;
  const int part = p.part();
  const int rows = p.out.rows;
  AddParts* const add = parts_adder(p, rows);
  alignas(64) std::byte room[2][chunk_inputs * most_decoded_input];
  alignas(64) float sums[row_block * tile_outputs] = {};
  const auto decode = [&](const Chunk& chunk, std::byte* to) -> const std::byte* {
    if (chunk.tile >= last)
      return nullptr;
    ask_ahead(w, chunk.tile, chunk.begin, chunk.end(w));
    return decoded_codes(w, chunk.tile, chunk.begin, chunk.end(w), to);
  };
  configure_for_parts(p, rows);
  int turn = 0;
  const std::byte* codes = decode({first, 0}, room[0]);
  for (Chunk at{first, 0}; at.tile < last; at = at.next(w), turn ^= 1) {
    const std::byte* const next = decode(at.next(w), room[turn ^ 1]);
    written(room);
    add(p, {0, at.tile, at.begin / part, (at.end(w) - at.begin) / part, codes, sums});
    codes = next;
    if (at.end(w) < w.padded_inputs())
      continue;
    finish_codes(p, sums, 0, rows, at.tile);
    std::fill_n(sums, rows * tile_outputs, 0.0f);
  }
}

/// Multiplies many rows with a few tiles, chunk by chunk of inputs. A chunk is decoded once, and
/// stays in the first-level cache while all rows pass. Unfinished sums wait in memory, which does
/// not change their bits.
class CodesRun {
public:
  CodesRun(const CodesProduct& p, int first, int last, std::byte* memory)
      : p_(p), part_(p.part()), first_(first), tiles_(last - first), room_(memory),
        sums_(reinterpret_cast<float*>(memory + codes_bytes)) {}

  static std::size_t bytes(const CodesProduct& p) {
    return codes_bytes + std::size_t(p.blocks()) * decoded_together * tile_size;
  }

  void multiply_all() {
    std::memset(sums_, 0, std::size_t(p_.blocks()) * decoded_together * tile_size);
    for (int begin = 0; begin < p_.w.padded_inputs(); begin += many_inputs)
      multiply_chunk(begin, std::min(begin + many_inputs, p_.w.padded_inputs()));
    for (int row = 0; row < p_.out.rows; row += row_block)
      for (int t = 0; t < tiles_; ++t)
        finish_codes(p_, sums_of(row, t), row, std::min(row_block, p_.out.rows - row), first_ + t);
  }

private:
  static constexpr std::size_t tile_bytes = many_inputs * most_decoded_input;
  static constexpr std::size_t codes_bytes = decoded_together * tile_bytes;

  float* sums_of(int row, int tile) const {
    return sums_ + (row / row_block * decoded_together + tile) * of_part;
  }

  void multiply_chunk(int begin, int end) {
    for (int t = 0; t < tiles_; ++t)
      codes_[t] = decoded_codes(p_.w, first_ + t, begin, end, room_ + t * tile_bytes);
    written(room_);
    configure_for_parts(p_, row_block);
    int row = 0;
    for (; row + 2 * row_block <= p_.out.rows; row += 2 * row_block)
      multiply_panel(row, begin, end);
    for (; row < p_.out.rows; row += row_block) {
      if (p_.out.rows - row < row_block)
        configure_for_parts(p_, p_.out.rows - row);
      multiply_block(row, begin, end, 0);
    }
  }

  CodeParts parts(int row, int begin, int end, int t) const {
    return {row, first_ + t, begin / part_, (end - begin) / part_, codes_[t], sums_of(row, t)};
  }

  /// Multiplies two blocks of rows with all tiles.
  void multiply_panel(int row, int begin, int end) const {
    AddPanel* const add = panel_adder(p_);
    int t = 0;
    for (; t + 2 <= tiles_; t += 2)
      add(p_, parts(row, begin, end, t), std::size_t(codes_[t + 1] - codes_[t]),
          decoded_together * of_part);
    multiply_block(row, begin, end, t);
    multiply_block(row + row_block, begin, end, t);
  }

  /// Multiplies a block of rows with the tiles from `t` on.
  void multiply_block(int row, int begin, int end, int t) const {
    AddParts* const add = parts_adder(p_, std::min(row_block, p_.out.rows - row));
    for (; t < tiles_; ++t)
      add(p_, parts(row, begin, end, t));
  }

  const CodesProduct& p_;
  const int part_;
  const int first_;
  const int tiles_;
  std::byte* const room_;                         ///< For each tile, tile_bytes of decoded codes.
  float* const sums_;                             ///< [block of rows][tile][16][16]
  const std::byte* codes_[decoded_together] = {}; ///< See CodeParts.
};

void many_rows_of_codes(const CodesProduct& p, int first, int last, Scratch& scratch) {
  std::byte* const memory = scratch.at_least(CodesRun::bytes(p));
  for (; first < last; first += decoded_together)
    CodesRun(p, first, std::min(first + decoded_together, last), memory).multiply_all();
}

} // namespace

std::size_t amx_codes_staged_bytes(int rows, const PackedWeight& w) {
  const int blocks = (rows + row_block - 1) / row_block;
  const int sums = w.codes().least ? w.parts() : 0;
  return std::size_t(blocks) * std::size_t(w.padded_inputs()) * row_block * 2 +
         std::size_t(rows) * std::size_t(sums) * sizeof(float);
}

void amx_stage_codes(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) {
  const CodesProduct p{in, staged, w, false};
  for (int r = first; r < last; ++r) {
    stage_row(staged + (p.rows(r) - staged) + std::size_t(r % row_block) * tile_row, in.row(r),
              in.cols);
    if (w.codes().least)
      avx512_sum_parts(const_cast<float*>(p.sums(r)), in.row(r), w);
  }
}

void amx_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add, Scratch& scratch) {
  const CodesProduct p{out, staged, w, add};
  written(staged);
  if (out.rows <= rows_as_tiles)
    avx512_linear_codes_as_tiles(out, pairs_of_tiles(staged, out.rows, w, scratch), p.sums(0), w,
                                 run, add);
  else if (out.rows <= row_block)
    few_rows_of_codes(p, run.first, run.last);
  else
    many_rows_of_codes(p, run.first, run.last, scratch);
}

void amx_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                     bool add, Scratch& scratch) {
  const CodesProduct p{out, staged, w, add, Int8Rows(w, out.rows)};
  written(staged);
  for_moderate_tiles(w, run, [&](TileRun part, bool moderate) {
    if (!moderate)
      linear_int8(out, staged, w, part, add);
    else if (out.rows <= row_block)
      few_rows_of_codes(p, part.first, part.last);
    else
      many_rows_of_codes(p, part.first, part.last, scratch);
  });
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
