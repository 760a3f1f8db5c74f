#include "gpu/cpu/amx_parts.hpp"

#if defined(__x86_64__)

#include <array>
#include <type_traits>
#include <utility>

PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// An iterator over the scales of a tile's parts, in units of what a number of 1 means.
class PartScales {
public:
  PartScales(const PackedWeight& w, int tile, int part)
      : unit_(is_mx(w.format()) ? w.integers()->unit : 0),
        parts_(unit_ > 0 ? 1 : w.codes().parts()), numbers_(w.has_least() ? 2 : 1),
        record_bytes_(unit_ > 0 ? std::size_t(tile_outputs) : w.record_bytes()),
        record_(w.tile(tile) + std::size_t(part / parts_) * record_bytes_), part_(part % parts_) {}

  __m512 scale() const {
    if (unit_ == 0)
      return of(0);
    const __m512i exponents = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes(record_)), 23);
    return _mm512_mul_ps(_mm512_castsi512_ps(exponents), _mm512_set1_ps(unit_));
  }
  __m512 least() const { return of(1); }
  void next() {
    if (++part_ < parts_)
      return;
    part_ = 0;
    record_ += record_bytes_;
  }

private:
  static __m128i bytes(const std::byte* from) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(from));
  }
  __m512 of(int which) const {
    const std::byte* halves = record_ + 2 * tile_outputs * which;
    const __m512 whole =
        _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves)));
    if (parts_ == 1)
      return whole;
    const std::byte* own = record_ + tile_outputs * (2 * numbers_ + part_ * numbers_ + which);
    return _mm512_mul_ps(whole, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes(own))));
  }

  const float unit_; ///< Of microscaling, whose scales are exponents; else 0.
  const int parts_;  ///< Of a record.
  const int numbers_;
  const std::size_t record_bytes_;
  const std::byte* record_;
  int part_;
};

/// Rows and codes of bf16, and how a part's product is added to a row's sum. multiply: product i of
/// the tiles 4 and 5, of rows, with 6 and 7, of codes, each with each.
struct Bf16 {
  static constexpr int bytes = 2;

  template <int i>
  static void multiply() {
    if constexpr (i == 0)
      _tile_dpbf16ps(0, 4, 6);
    else if constexpr (i == 1)
      _tile_dpbf16ps(1, 4, 7);
    else if constexpr (i == 2)
      _tile_dpbf16ps(2, 5, 6);
    else
      _tile_dpbf16ps(3, 5, 7);
  }
  static __m512 product(const float* partial) { return _mm512_load_ps(partial); }
  static __m512 scale(__m512 of_weight, const float* /*of_rows*/, int /*row*/) { return of_weight; }
  /// Returns how many rows are side by side in a block of `rows` rows.
  static int pitch(int /*rows*/) { return row_block; }
  /// Return the numbers from a row's sum to the next row's, and to the next part's.
  static std::ptrdiff_t to_row(int parts) { return parts; }
  static std::ptrdiff_t to_part(int /*rows*/) { return 1; }
};

/// The same for bytes. Sums of integers are exact; as floats, too, of which they need 20 bits.
struct Bytes {
  static constexpr int bytes = 1;

  template <int i>
  static void multiply() {
    if constexpr (i == 0)
      _tile_dpbssd(0, 4, 6);
    else if constexpr (i == 1)
      _tile_dpbssd(1, 4, 7);
    else if constexpr (i == 2)
      _tile_dpbssd(2, 5, 6);
    else
      _tile_dpbssd(3, 5, 7);
  }
  static __m512 product(const float* partial) {
    return _mm512_cvtepi32_ps(_mm512_load_si512(partial));
  }
  static __m512 scale(__m512 of_weight, const float* of_rows, int row) {
    return _mm512_mul_ps(of_weight, _mm512_set1_ps(of_rows[row]));
  }
  static int pitch(int rows) { return rows; }
  static std::ptrdiff_t to_row(int /*parts*/) { return 1; }
  static std::ptrdiff_t to_part(int rows) { return rows; }
};

/// Parts of Part inputs of a block of Rows rows: where each of them is.
template <class Numbers, int Part, int Rows>
struct Parts {
  static constexpr int input_row = tile_inputs * Numbers::bytes; ///< Bytes of a row's 32 inputs.
  static constexpr std::size_t tile_bytes = std::size_t(Part) * tile_outputs * Numbers::bytes;

  static const std::byte* inputs(const RowBlock& rows, int part) {
    return rows.inputs + part * Part / tile_inputs * Numbers::pitch(Rows) * input_row +
           part * Part % tile_inputs * Numbers::bytes;
  }
  static const float* scales(const RowBlock& rows, int part) {
    return rows.scales ? rows.scales + part * Part / mx_block * Rows : nullptr;
  }
};

/// Multiplies two tiles that have been loaded, from zero on.
template <class Numbers, int i>
inline void multiply() {
  zero_accumulator(i);
  Numbers::template multiply<i>();
}

constexpr int parts_together = 8;
constexpr int accumulators = 4;
template <int i>
using Constant = std::integral_constant<int, i>;

/// Multiplies `count` parts of a tile, from `first` on. partial: [part][row][16]. A product is
/// stored when its accumulator is needed again: a store waits for the product, and holds up what
/// follows it.
template <class Numbers, int Part, int Rows>
inline void multiply_parts(const RowBlock& rows, int first, const std::byte* codes, int count,
                           float* partial) {
  using At = Parts<Numbers, Part, Rows>;
  const auto step = [&](auto i, int part) __attribute__((always_inline)) {
    if (part >= accumulators && part - accumulators < count)
      store_accumulator(i, partial + (part - accumulators) * of_part, tile_row);
    if (part >= count)
      return;
    load_inputs(i / 2, At::inputs(rows, first + part), At::input_row);
    load_codes(i % 2, codes + std::size_t(part) * At::tile_bytes);
    multiply<Numbers, i>();
  };
  for (int part = 0; part < count + accumulators; part += accumulators) {
    step(Constant<0>(), part);
    step(Constant<1>(), part + 1);
    step(Constant<2>(), part + 2);
    step(Constant<3>(), part + 3);
  }
}

template <class Numbers, int Part, int Rows>
__attribute__((noinline)) void add_parts(const CodesProduct& p, const CodeParts& of) {
  using At = Parts<Numbers, Part, Rows>;
  alignas(64) float partial[parts_together * of_part];
  const bool least = p.w.has_least();
  const std::ptrdiff_t to_row = Numbers::to_row(p.w.padded_inputs() / Part);
  const RowBlock rows = p.block(of.row);
  const std::byte* codes = of.codes; // A local copy is not reloaded after each store.
  float* const sums = of.sums;
  PartScales scales(p.w, of.tile, of.first);
  __m512 sum[Rows];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    sum[r] = _mm512_load_ps(sums + r * tile_outputs);
  const auto add = [&](int part, const float* from) __attribute__((always_inline)) {
    const __m512 scale = scales.scale();
    const float* const of_rows = At::scales(rows, part);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
      sum[r] = _mm512_fmadd_ps(Numbers::scale(scale, of_rows, r),
                               Numbers::product(from + r * tile_outputs), sum[r]);
    if (least) {
      const __m512 lowest = scales.least();
      const float* const inputs = rows.sums + part * Numbers::to_part(Rows);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r)
        sum[r] = _mm512_fmadd_ps(lowest, _mm512_set1_ps(inputs[r * to_row]), sum[r]);
    }
    scales.next();
  };
  const int last = of.first + of.count;
  for (int part = of.first; part < last; part += parts_together) {
    const int count = std::min(parts_together, last - part);
    multiply_parts<Numbers, Part, Rows>(rows, part, codes, count, partial);
    codes += parts_together * At::tile_bytes;
    for (int i = 0; i < count; ++i)
      add(part + i, partial + i * of_part);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    _mm512_store_ps(sums + r * tile_outputs, sum[r]);
}

/// Number of parts of two tiles and two blocks of rows whose products are scaled together.
constexpr int parts_of_panel = 4;

/// Multiplies `count` parts of two blocks of rows with two tiles, as multiply_parts does; every
/// load serves two products. partial: [part][block][tile][row][16]
template <class Numbers, int Part>
inline void multiply_panel(const RowBlock (&rows)[2], int first, const std::byte* codes,
                           const std::byte* next_codes, int count, float* partial) {
  using At = Parts<Numbers, Part, row_block>;
  const auto store = [&](auto i, int part) __attribute__((always_inline)) {
    if (part > 0)
      store_accumulator(i, partial + ((part - 1) * accumulators + i) * of_part, tile_row);
  };
  constexpr Constant<0> first_tile;
  constexpr Constant<1> second_tile;
  constexpr Constant<2> of_second_block;
  constexpr Constant<3> last_product;
#pragma GCC unroll 1
  for (int part = 0; part < count; ++part) {
    const std::size_t at = std::size_t(part) * At::tile_bytes;
    store(first_tile, part);
    load_inputs(0, At::inputs(rows[0], first + part), At::input_row);
    load_codes(0, codes + at);
    multiply<Numbers, 0>();
    store(second_tile, part);
    load_codes(1, next_codes + at);
    multiply<Numbers, 1>();
    store(of_second_block, part);
    load_inputs(1, At::inputs(rows[1], first + part), At::input_row);
    multiply<Numbers, 2>();
    store(last_product, part);
    multiply<Numbers, 3>();
  }
  store(first_tile, count);
  store(second_tile, count);
  store(of_second_block, count);
  store(last_product, count);
}

/// Scales and least values of the parts of two tiles.
struct PanelScales {
  __m512 scale[parts_of_panel][2];
  __m512 least[parts_of_panel][2];
};

/// Adds parts [first, first + count) of eight rows, from row `row` of the block on, to their sums.
/// partial: [part][block][tile][16][16], at that row in the first tile; sums: [tile][16][16], at
/// that row
template <class Numbers, int Part, bool Least>
inline void add_eight_rows(const PanelScales& scales, const float* partial, const RowBlock& block,
                           int row, int first, int count, std::ptrdiff_t to_row, float* sums) {
  constexpr int rows = row_block / 2;
  __m512 sum[2][rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    sum[0][r] = _mm512_load_ps(sums + r * tile_outputs);
    sum[1][r] = _mm512_load_ps(sums + of_part + r * tile_outputs);
  }
  for (int part = 0; part < count; ++part, partial += accumulators * of_part) {
    const __m512 scale[2] = {scales.scale[part][0], scales.scale[part][1]};
    const float* const of_rows = Parts<Numbers, Part, row_block>::scales(block, first + part);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const float* from = partial + r * tile_outputs;
      sum[0][r] = _mm512_fmadd_ps(Numbers::scale(scale[0], of_rows, row + r),
                                  Numbers::product(from), sum[0][r]);
      sum[1][r] = _mm512_fmadd_ps(Numbers::scale(scale[1], of_rows, row + r),
                                  Numbers::product(from + of_part), sum[1][r]);
    }
    if constexpr (Least) {
      const __m512 least[2] = {scales.least[part][0], scales.least[part][1]};
      const float* const of_inputs =
          block.sums + row * to_row + (first + part) * Numbers::to_part(row_block);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const __m512 inputs = _mm512_set1_ps(of_inputs[r * to_row]);
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

template <class Numbers, int Part, bool Least>
__attribute__((noinline)) void add_panel(const CodesProduct& p, const CodeParts& of,
                                         std::size_t tile_codes, std::ptrdiff_t block_sums) {
  alignas(64) float partial[parts_of_panel * accumulators * of_part];
  const std::ptrdiff_t to_row = Numbers::to_row(p.w.padded_inputs() / Part);
  const RowBlock blocks[2] = {p.block(of.row), p.block(of.row + row_block)};
  const std::byte* codes = of.codes;
  float* const sums = of.sums;
  PartScales own(p.w, of.tile, of.first), next(p.w, of.tile + 1, of.first);
  PanelScales scales;
  const int last = of.first + of.count;
  for (int begin = of.first; begin < last; begin += parts_of_panel) {
    const int count = std::min(parts_of_panel, last - begin);
    multiply_panel<Numbers, Part>(blocks, begin, codes, codes + tile_codes, count, partial);
    codes += parts_of_panel * Parts<Numbers, Part, row_block>::tile_bytes;
#pragma GCC unroll 1
    for (int part = 0; part < count; ++part) {
      scales.scale[part][0] = own.scale();
      scales.scale[part][1] = next.scale();
      if constexpr (Least) {
        scales.least[part][0] = own.least();
        scales.least[part][1] = next.least();
      }
      own.next();
      next.next();
    }
    // Unrolled as well, all this would be too long for the cache of decoded instructions.
#pragma GCC unroll 1
    for (int block = 0; block < 2; ++block)
#pragma GCC unroll 1
      for (int row = 0; row < row_block; row += row_block / 2)
        add_eight_rows<Numbers, Part, Least>(
            scales, partial + block * 2 * of_part + row * tile_outputs, blocks[block], row, begin,
            count, to_row, sums + block * block_sums + row * tile_outputs);
  }
}

template <class Numbers, int Part, int... r>
constexpr std::array<AddParts*, row_block> adders(std::integer_sequence<int, r...>) {
  return {add_parts<Numbers, Part, r + 1>...};
}

template <class Numbers>
AddParts* adder(int part, int rows) {
  constexpr auto all = std::make_integer_sequence<int, row_block>();
  static constexpr auto of_16 = adders<Numbers, 16>(all);
  static constexpr auto of_32 = adders<Numbers, 32>(all);
  return (part == 16 ? of_16 : of_32)[std::size_t(rows - 1)];
}

template <class Numbers>
AddPanel* panel(int part, bool least) {
  if (part == 16)
    return least ? add_panel<Numbers, 16, true> : add_panel<Numbers, 16, false>;
  return least ? add_panel<Numbers, 32, true> : add_panel<Numbers, 32, false>;
}

} // namespace

/// Tiles 0 to 3 hold the products of parts, 4 and 5 inputs of rows, 6 and 7 codes.
void configure_for_parts(const CodesProduct& p, int rows) {
  const int bytes = p.part() * p.decoded_input() / tile_outputs; // Of a part's inputs in a row.
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = std::uint16_t(i == 4 || i == 5 ? bytes : tile_row);
    config.rows[i] = std::uint8_t(i < 6 ? rows : bytes / 4);
  }
  written(&config);
  _tile_loadconfig(&config);
}

AddParts* parts_adder(const CodesProduct& p, int rows) {
  return p.bytes ? adder<Bytes>(p.part(), rows) : adder<Bf16>(p.part(), rows);
}

AddPanel* panel_adder(const CodesProduct& p) {
  const bool least = p.w.has_least();
  return p.bytes ? panel<Bytes>(p.part(), least) : panel<Bf16>(p.part(), least);
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
