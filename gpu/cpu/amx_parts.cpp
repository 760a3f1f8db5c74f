#include "gpu/cpu/amx_parts.hpp"

#if defined(__x86_64__)

#include <array>
#include <type_traits>
#include <utility>

// The headers of GCC 12 make undefined vectors, of which GCC then warns (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// An iterator over the scales of a tile's parts.
class PartScales {
public:
  PartScales(const PackedWeight& w, int tile, int part)
      : how_(w.codes()), record_bytes_(w.record_bytes()),
        record_(w.tile(tile) + std::size_t(part / how_.parts()) * record_bytes_),
        part_(part % how_.parts()) {}

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
  int part_;
};

/// Returns where a part's inputs begin among the staged ones.
template <int Part>
constexpr std::size_t staged_offset(int part) {
  return std::size_t(part * Part / tile_inputs) * tile_size +
         std::size_t(part * Part % tile_inputs) * 2;
}

constexpr int parts_together = 8;

/// Multiplies one part; writes the product to `partial`: [row][16].
template <int Part>
inline void multiply_one(const std::byte* in, const std::byte* codes, float* partial) {
  _tile_zero(0);
  _tile_loadd(4, in, tile_row);
  _tile_loadd(6, codes, tile_row);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stored(0, partial, tile_row);
}

/// Multiplies two parts, writes to `partial`, and alternates between two sets of tiles.
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

template <int Part, int Rows>
__attribute__((noinline)) void add_parts(const CodesProduct& p, const CodeParts& of) {
  alignas(64) float partial[parts_together * of_part];
  const bool least = p.w.codes().least;
  const std::ptrdiff_t stride = p.w.parts();
  const std::byte* const in = p.rows(of.row) + staged_offset<Part>(of.first);
  const float* const row_sums = p.sums(of.row) + of.first;
  const std::byte* const codes = of.codes; // A local copy is not reloaded after each store.
  float* const sums = of.sums;
  const int parts = of.count;
  PartScales scales(p.w, of.tile, of.first);
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
      add(begin + part, partial + part * of_part);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    _mm512_store_ps(sums + r * tile_outputs, sum[r]);
}

/// Number of parts of two tiles and two blocks of rows whose products are scaled together.
constexpr int parts_of_panel = 4;

/// Multiplies a part of two blocks of rows with two tiles; every load serves two products. partial:
/// [block][tile][row][16]
template <int Part>
inline void multiply_four(const std::byte* in, const std::byte* next_in, const std::byte* codes,
                          const std::byte* next_codes, float* partial) {
  _tile_zero(0);
  _tile_loadd(4, in, tile_row);
  _tile_loadd(6, codes, tile_row);
  _tile_dpbf16ps(0, 4, 6);
  _tile_zero(1);
  _tile_loadd(7, next_codes, tile_row);
  _tile_dpbf16ps(1, 4, 7);
  _tile_zero(2);
  _tile_loadd(5, next_in, tile_row);
  _tile_dpbf16ps(2, 5, 6);
  _tile_zero(3);
  _tile_dpbf16ps(3, 5, 7);
  _tile_stored(0, partial, tile_row);
  _tile_stored(1, partial + of_part, tile_row);
  _tile_stored(2, partial + 2 * of_part, tile_row);
  _tile_stored(3, partial + 3 * of_part, tile_row);
}

/// Scales and least values of the parts of two tiles.
struct PanelScales {
  __m512 scale[parts_of_panel][2];
  __m512 least[parts_of_panel][2];
};

/// Adds the parts of eight rows to their sums. partial: [part][block][tile][16][16], at the first
/// row in the first tile; row_sums: of that row; sums: [tile][16][16], at that row
template <bool Least>
inline void add_eight_rows(const PanelScales& scales, const float* partial, int parts,
                           const float* row_sums, std::ptrdiff_t stride, float* sums) {
  constexpr int rows = row_block / 2;
  __m512 sum[2][rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    sum[0][r] = _mm512_load_ps(sums + r * tile_outputs);
    sum[1][r] = _mm512_load_ps(sums + of_part + r * tile_outputs);
  }
  for (int part = 0; part < parts; ++part, partial += 4 * of_part) {
    const __m512 scale[2] = {scales.scale[part][0], scales.scale[part][1]};
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const float* from = partial + r * tile_outputs;
      sum[0][r] = _mm512_fmadd_ps(scale[0], _mm512_load_ps(from), sum[0][r]);
      sum[1][r] = _mm512_fmadd_ps(scale[1], _mm512_load_ps(from + of_part), sum[1][r]);
    }
    if constexpr (Least) {
      const __m512 least[2] = {scales.least[part][0], scales.least[part][1]};
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const __m512 inputs = _mm512_set1_ps(row_sums[r * stride + part]);
        sum[0][r] = _mm512_fmadd_ps(least[0], inputs, sum[0][r]);
        sum[1][r] = _mm512_fmadd_ps(least[1], inputs, sum[1][r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    _mm512_store_ps(sums + r * tile_outputs, sum[0][r]);
    _mm512_store_ps(sums + of_part + r * tile_outputs, sum[1][r]);
  }
}

template <int Part, bool Least>
__attribute__((noinline)) void add_panel(const CodesProduct& p, const CodeParts& of,
                                         std::size_t tile_codes, std::ptrdiff_t block_sums) {
  alignas(64) float partial[parts_of_panel * 4 * of_part];
  const std::ptrdiff_t stride = p.w.parts();
  const std::byte* const in = p.rows(of.row) + staged_offset<Part>(of.first);
  const float* const row_sums = p.sums(of.row) + of.first;
  const std::size_t block_bytes = p.block_bytes();
  const std::byte* const codes = of.codes;
  float* const sums = of.sums;
  const int parts = of.count;
  PartScales own(p.w, of.tile, of.first), next(p.w, of.tile + 1, of.first);
  PanelScales scales;
  for (int begin = 0; begin < parts; begin += parts_of_panel) {
    const int count = std::min(parts_of_panel, parts - begin);
    for (int part = 0; part < count; ++part) {
      const std::byte* rows = in + staged_offset<Part>(begin + part);
      const std::byte* tile = codes + std::size_t(begin + part) * Part * decoded_input;
      multiply_four<Part>(rows, rows + block_bytes, tile, tile + tile_codes,
                          partial + part * 4 * of_part);
      scales.scale[part][0] = own.scale();
      scales.scale[part][1] = next.scale();
      if constexpr (Least) {
        scales.least[part][0] = own.least();
        scales.least[part][1] = next.least();
      }
      own.next();
      next.next();
    }
    for (int block = 0; block < 2; ++block)
      for (int row = 0; row < row_block; row += row_block / 2)
        add_eight_rows<Least>(scales, partial + block * 2 * of_part + row * tile_outputs, count,
                              row_sums + (block * row_block + row) * stride + begin, stride,
                              sums + block * block_sums + row * tile_outputs);
  }
}

template <int Part, int... r>
constexpr std::array<AddParts*, row_block> adders(std::integer_sequence<int, r...>) {
  return {add_parts<Part, r + 1>...};
}

} // namespace

/// Tiles 0 to 3 hold the products of parts, 4 and 5 inputs of rows, 6 and 7 codes.
void configure_for_parts(int rows, int part) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = std::uint16_t(i == 4 || i == 5 ? 2 * part : tile_row);
    config.rows[i] = std::uint8_t(i < 6 ? rows : part / 2);
  }
  written(&config);
  _tile_loadconfig(&config);
}

AddParts* parts_adder(int part, int rows) {
  constexpr auto all = std::make_integer_sequence<int, row_block>();
  static constexpr auto of_16 = adders<16>(all);
  static constexpr auto of_32 = adders<32>(all);
  return (part == 16 ? of_16 : of_32)[std::size_t(rows - 1)];
}

AddPanel* panel_adder(const ScaledCodes& how) {
  if (how.part == 16)
    return how.least ? add_panel<16, true> : add_panel<16, false>;
  return how.least ? add_panel<32, true> : add_panel<32, false>;
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
