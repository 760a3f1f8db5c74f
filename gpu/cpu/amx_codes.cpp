// Products with weights of scaled codes on AMX tiles. A tile product is one part of 16 outputs, the
// codes as bf16 integers: it begins at zero, and what it gives is added to the sums of its rows, in
// registers, in units of the part's scale. A part's least value is multiplied with the sum of its
// inputs, which is staged with the row. One kernel serves one row and many.
#include "gpu/cpu/amx_codes.hpp"

#include "gpu/cpu/amx_tiles.hpp"
#include "gpu/cpu/avx512_codes.hpp"

#if defined(__x86_64__)

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

// GCC 12's own headers make undefined vectors in a way that it then warns of (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// Inputs whose codes are decoded at a time, and then stay in the first-level cache.
constexpr int chunk_inputs = 256;
/// Tiles of weights that are decoded for many rows.
constexpr int decoded_together = 4;
constexpr std::size_t decoded_input = tile_outputs * 2; ///< Bytes of an input of a decoded tile.

/// Staged: blocks of row_block rows, each [32 inputs][row][32] in bf16; then, where there are least
/// values, the sums of each row's parts.
struct CodesProduct {
  Tensor out;
  const std::byte* staged;
  const PackedWeight& w;
  bool add;

  std::size_t block_bytes() const { return std::size_t(w.padded_inputs()) * row_block * 2; }
  int blocks() const { return (out.rows + row_block - 1) / row_block; }
  const std::byte* rows(int row) const {
    return staged + std::size_t(row / row_block) * block_bytes();
  }
  const float* sums(int row) const {
    return reinterpret_cast<const float*>(staged + std::size_t(blocks()) * block_bytes()) +
           std::ptrdiff_t(row) * w.parts();
  }
};

/// Tiles 0 to 3 are what parts give, 4 and 5 `rows` rows of inputs, 6 and 7 codes.
void configure_for_parts(int rows, int part) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = std::uint16_t(i == 4 || i == 5 ? 2 * part : tile_row);
    config.rows[i] = std::uint8_t(i < 6 ? rows : part / 2);
  }
  written(&config);
  _tile_loadconfig(&config);
}

/// Walks over the scales of a tile's parts.
class PartScales {
public:
  PartScales(const PackedWeight& w, int tile, int part)
      : how_(w.codes()), record_bytes_(w.record_bytes()),
        record_(w.tile(tile) + std::size_t(part / how_.parts()) * record_bytes_) {}

  __m512 scale() const { return of(0); }
  __m512 least() const { return of(1); }
  void next() {
    if (++part_ < how_.parts())
      return;
    part_ = 0;
    record_ += record_bytes_;
  }

private:
  __m512 of(int which) const {
    const std::byte* halves = record_ + 2 * tile_outputs * which;
    const __m512 whole =
        _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves)));
    if (how_.parts() == 1)
      return whole;
    const int numbers = how_.least ? 2 : 1;
    const std::byte* own = record_ + tile_outputs * (2 * numbers + part_ * numbers + which);
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(own));
    return _mm512_mul_ps(whole, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
  }

  const ScaledCodes& how_;
  const std::size_t record_bytes_;
  const std::byte* record_;
  int part_ = 0;
};

/// Where a part's inputs begin among staged ones.
template <int Part>
constexpr std::size_t staged_offset(int part) {
  return std::size_t(part * Part / tile_inputs) * tile_size +
         std::size_t(part * Part % tile_inputs) * 2;
}

constexpr int parts_together = 8;
constexpr int of_part = row_block * tile_outputs; ///< Numbers of what a part gives.

/// One part into `partial`: [row][16].
template <int Part>
inline void multiply_one(const std::byte* in, const std::byte* codes, float* partial) {
  _tile_zero(0);
  _tile_loadd(4, in, tile_row);
  _tile_loadd(6, codes, tile_row);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stored(0, partial, tile_row);
}

/// Two parts, into `partial`; in turn by other tiles.
template <int Part, int Turn>
inline void multiply_two(const std::byte* in, const std::byte* codes, float* partial) {
  const std::byte* const second = in + staged_offset<Part>(1);
  const std::byte* const second_codes = codes + Part * decoded_input;
  if constexpr (Turn == 0) {
    _tile_zero(0);
    _tile_loadd(4, in, tile_row);
    _tile_loadd(6, codes, tile_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_zero(1);
    _tile_loadd(5, second, tile_row);
    _tile_loadd(7, second_codes, tile_row);
    _tile_dpbf16ps(1, 5, 7);
    _tile_stored(0, partial, tile_row);
    _tile_stored(1, partial + of_part, tile_row);
  } else {
    _tile_zero(2);
    _tile_loadd(4, in, tile_row);
    _tile_loadd(6, codes, tile_row);
    _tile_dpbf16ps(2, 4, 6);
    _tile_zero(3);
    _tile_loadd(5, second, tile_row);
    _tile_loadd(7, second_codes, tile_row);
    _tile_dpbf16ps(3, 5, 7);
    _tile_stored(2, partial, tile_row);
    _tile_stored(3, partial + of_part, tile_row);
  }
}

/// Adds `parts` parts of one tile, from `first` on, to the sums of Rows rows. in, codes: of the
/// first part; row_sums: of the first row; sums: [Rows][16]
template <int Part, int Rows>
__attribute__((noinline)) void add_parts(const CodesProduct& p, const std::byte* in,
                                         const std::byte* codes, const float* row_sums, int tile,
                                         int first, int parts, float* sums) {
  alignas(64) float partial[parts_together * of_part];
  const bool least = p.w.codes().least;
  const std::ptrdiff_t stride = p.w.parts();
  PartScales scales(p.w, tile, first);
  __m512 sum[Rows];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    sum[r] = _mm512_load_ps(sums + r * tile_outputs);
  const auto add = [&](int part, const float* from) __attribute__((always_inline)) {
    const __m512 scale = scales.scale();
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
      sum[r] = _mm512_fmadd_ps(scale, _mm512_load_ps(from + r * tile_outputs), sum[r]);
    if (least) {
      const __m512 lowest = scales.least();
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r)
        sum[r] = _mm512_fmadd_ps(lowest, _mm512_set1_ps(row_sums[r * stride + part]), sum[r]);
    }
    scales.next();
  };
  constexpr std::integral_constant<int, 0> even;
  constexpr std::integral_constant<int, 1> odd;
  const auto multiply = [&](auto turn, int part, float* to) __attribute__((always_inline)) {
    multiply_two<Part, turn>(in + staged_offset<Part>(part),
                             codes + std::size_t(part) * Part * decoded_input, to);
  };
  for (int begin = 0; begin < parts; begin += parts_together) {
    const int count = std::min(parts_together, parts - begin);
    int part = 0;
    for (; part + 4 <= count; part += 4) {
      multiply(even, begin + part, partial + part * of_part);
      multiply(odd, begin + part + 2, partial + (part + 2) * of_part);
    }
    for (; part < count; ++part)
      multiply_one<Part>(in + staged_offset<Part>(begin + part),
                         codes + std::size_t(begin + part) * Part * decoded_input,
                         partial + part * of_part);
    for (part = 0; part < count; ++part)
      add(first + begin + part, partial + part * of_part);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    _mm512_store_ps(sums + r * tile_outputs, sum[r]);
}

using AddParts = void(const CodesProduct& p, const std::byte* in, const std::byte* codes,
                      const float* row_sums, int tile, int first, int parts, float* sums);

template <int Part, int... r>
constexpr std::array<AddParts*, row_block> adders(std::integer_sequence<int, r...>) {
  return {add_parts<Part, r + 1>...};
}
AddParts* adder(int part, int rows) {
  constexpr auto all = std::make_integer_sequence<int, row_block>();
  static constexpr auto of_16 = adders<16>(all);
  static constexpr auto of_32 = adders<32>(all);
  return (part == 16 ? of_16 : of_32)[std::size_t(rows - 1)];
}

void finish_codes(const CodesProduct& p, const float* sums, int row, int rows, int tile) {
  const int first = tile * tile_outputs;
  const __mmask16 wanted = first_lanes(p.w.outputs() - first);
  for (int r = 0; r < rows; ++r) {
    float* out = p.out.row(row + r) + first;
    __m512 sum = _mm512_load_ps(sums + r * tile_outputs);
    if (p.add)
      sum = _mm512_add_ps(_mm512_maskz_loadu_ps(wanted, out), sum);
    _mm512_mask_storeu_ps(out, wanted, sum);
  }
}

/// Asks for what comes from memory some time after a chunk: tiles are one stream.
void ask_ahead(const PackedWeight& w, int tile, int from, int to) {
  constexpr std::size_t distance = 16384;
  const std::size_t bytes = w.tile_bytes();
  const auto inputs = std::size_t(w.padded_inputs());
  const std::byte* at = w.tile(tile) + distance + bytes * std::size_t(from) / inputs;
  const std::byte* const end = w.tile(tile) + distance + bytes * std::size_t(to) / inputs;
  for (; at < end; at += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

/// A piece of a tile.
struct Chunk {
  int tile;
  int begin; ///< Of its inputs.

  int end(const PackedWeight& w) const { return std::min(begin + chunk_inputs, w.padded_inputs()); }
  Chunk next(const PackedWeight& w) const {
    return end(w) < w.padded_inputs() ? Chunk{tile, end(w)} : Chunk{tile + 1, 0};
  }
};

/// Up to 16 rows: a chunk is decoded while the one before it is multiplied, for tiles wait until
/// what they load has left the processor's queue of stores.
void few_rows_of_codes(const CodesProduct& p, int first, int last) {
  const PackedWeight& w = p.w;
  const int part = w.codes().part;
  const int rows = p.out.rows;
  AddParts* const add = adder(part, rows);
  alignas(64) std::byte codes[2][chunk_inputs * decoded_input];
  alignas(64) float sums[row_block * tile_outputs] = {};
  const auto decode = [&](const Chunk& chunk, std::byte* to) {
    if (chunk.tile >= last)
      return;
    ask_ahead(w, chunk.tile, chunk.begin, chunk.end(w));
    avx512_decode_codes(w, chunk.tile, chunk.begin, chunk.end(w), to);
  };
  configure_for_parts(rows, part);
  int turn = 0;
  decode({first, 0}, codes[0]);
  for (Chunk at{first, 0}; at.tile < last; at = at.next(w), turn ^= 1) {
    decode(at.next(w), codes[turn ^ 1]);
    written(codes);
    add(p, p.staged + std::size_t(at.begin / tile_inputs) * tile_size, codes[turn], p.sums(0),
        at.tile, at.begin / part, (at.end(w) - at.begin) / part, sums);
    if (at.end(w) < w.padded_inputs())
      continue;
    finish_codes(p, sums, 0, rows, at.tile);
    std::fill_n(sums, rows * tile_outputs, 0.0f);
  }
}

/// Chunk by chunk of a few tiles, which stay in the first-level cache with those of a block of
/// rows, while all rows pass. Sums that are not finished wait in memory, which changes nothing in
/// them.
void many_rows_of_codes(const CodesProduct& p, int first, int last, Scratch& scratch) {
  const PackedWeight& w = p.w;
  const int part = w.codes().part;
  constexpr std::size_t codes_bytes = chunk_inputs * decoded_input;
  const std::size_t sums_bytes = std::size_t(p.blocks()) * decoded_together * tile_size;
  std::byte* const codes = scratch.at_least(decoded_together * codes_bytes + sums_bytes);
  auto* const sums = reinterpret_cast<float*>(codes + decoded_together * codes_bytes);
  const auto sums_of = [&](int row, int tile) {
    return sums + (row / row_block * decoded_together + tile) * of_part;
  };
  for (; first < last; first += decoded_together) {
    const int tiles = std::min(decoded_together, last - first);
    std::memset(sums, 0, sums_bytes);
    for (int begin = 0; begin < w.padded_inputs(); begin += chunk_inputs) {
      const int end = std::min(begin + chunk_inputs, w.padded_inputs());
      for (int t = 0; t < tiles; ++t)
        avx512_decode_codes(w, first + t, begin, end, codes + std::size_t(t) * codes_bytes);
      written(codes);
      for (int row = 0; row < p.out.rows; row += row_block) {
        const int rows = std::min(row_block, p.out.rows - row);
        if (row == 0 || rows < row_block)
          configure_for_parts(rows, part);
        for (int t = 0; t < tiles; ++t)
          adder(part, rows)(p, p.rows(row) + std::size_t(begin / tile_inputs) * tile_size,
                            codes + std::size_t(t) * codes_bytes, p.sums(row), first + t,
                            begin / part, (end - begin) / part, sums_of(row, t));
      }
    }
    for (int row = 0; row < p.out.rows; row += row_block)
      for (int t = 0; t < tiles; ++t)
        finish_codes(p, sums_of(row, t), row, std::min(row_block, p.out.rows - row), first + t);
  }
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

void amx_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, int first,
                      int last, bool add, Scratch& scratch) {
  const CodesProduct p{out, staged, w, add};
  written(staged);
  if (out.rows <= row_block)
    few_rows_of_codes(p, first, last);
  else
    many_rows_of_codes(p, first, last, scratch);
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
