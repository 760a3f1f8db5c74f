// Products with weights of scaled codes by vdpbf16ps. Tables turn codes into pairs of bf16
// integers: one table of 16-bit numbers for codes of six bits or fewer, two tables of their bytes
// for codes of eight. A part's products are summed by themselves, and the sum is added to the row's
// in units of the part's scale. A part's least value is multiplied with the sum of its inputs,
// which is staged with the row. For few rows, codes are decoded in registers; for more, a tile is
// decoded once. All sums are the same, in the same order.
#include "gpu/cpu/avx512_codes.hpp"

#if defined(__x86_64__)

#include "gpu/cpu/avx512_ahead.hpp"
#include "gpu/cpu/avx512_decoders.hpp"
#include "gpu/cpu/avx512_rows.hpp"
#include "gpu/cpu/avx512_sums.hpp"

#include <array>

namespace paceline::gpu::cpu {
namespace {

struct Product {
  Tensor out;
  const std::byte* staged; ///< Blocks of row_block rows: [pair of inputs][row of the block][2].
  const float* sums;       ///< [rows, parts], if there are least values.
  const PackedWeight& w;
  bool add;
  const CodeTable* table; ///< Numbers of codes of up to six bits.

  int pairs() const { return w.padded_inputs() / 2; }
  int rows_of(int block) const { return std::min(row_block, out.rows - block * row_block); }
  const std::byte* rows(int block) const {
    return staged + std::size_t(block) * std::size_t(pairs()) * row_block * pair_bytes;
  }
};

} // namespace
} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// Multiplies Rows rows of `in`, of which `row` is the first, with Tiles tiles from `tile` on.
/// words: the weight's words, or a decoded tile. next: the tile that follows, to be fetched.
template <class Sum, int bits, int Rows, int Tiles>
__attribute__((noinline)) void block(const Product& p, const std::byte* in, int row, int tile,
                                     int next, const std::byte* words) {
  static_assert(bits != decoded || Tiles == 1);
  const Decoder<bits> decoder(*p.table);
  constexpr std::size_t run_bytes = Decoder<bits>::words * line;
  const ScaledCodes& how = p.w.codes();
  const std::size_t tile_bytes = p.w.tile_bytes();
  const std::size_t numbers = how.least ? 2 : 1; // A scale, and maybe a least value.
  const bool several = how.parts() > 1;
  const int runs = how.part / 2 / Decoder<bits>::pairs;
  const auto parts = std::size_t(p.w.parts());
  const std::byte* record = p.w.tile(tile);
  Ahead<bits, Tiles> ahead(p.w, tile, next, p.w.parts());
  const float* sums = p.sums + std::size_t(row) * parts;
  __m512 sum[Rows][Tiles];
  repeat<Tiles>([&](auto t) INLINED {
    repeat<Rows>([&](auto r) INLINED { sum[r][t] = _mm512_setzero_ps(); });
  });
  for (std::size_t at = 0; at < parts; record += p.w.record_bytes()) {
    const std::byte* own = record + 2 * tile_outputs * numbers;
    for (int part = 0; part < how.parts(); ++part, ++at, own += tile_outputs * numbers) {
      ahead.part();
      Sum partial[Rows][Tiles];
      for (int run = 0; run < runs; ++run, words += run_bytes) {
        ahead.template lines_of_each<Decoder<bits>::words>();
        typename Decoder<bits>::Run all[Tiles];
        repeat<Tiles>([&](auto t) INLINED { all[t] = decoder.run(words + t * tile_bytes); });
        repeat<Decoder<bits>::pairs>([&](auto pair) INLINED {
          repeat<Tiles>([&](auto t) INLINED {
            const __m512i weights = decoder.template numbers<pair>(all[t]);
            repeat<Rows>([&](auto r) INLINED { partial[r][t].add(weights, in + r * pair_bytes); });
          });
          in += Rows * pair_bytes;
        });
      }
      repeat<Tiles>([&](auto t) INLINED {
        __m512 scale = halves(record + t * tile_bytes);
        if (several)
          scale = _mm512_mul_ps(scale, bytes(own + t * tile_bytes));
        repeat<Rows>([&](auto r) INLINED {
          sum[r][t] = _mm512_fmadd_ps(scale, partial[r][t].total(), sum[r][t]);
        });
        if (!how.least)
          return;
        __m512 least = halves(record + 2 * tile_outputs + t * tile_bytes);
        if (several)
          least = _mm512_mul_ps(least, bytes(own + tile_outputs + t * tile_bytes));
        repeat<Rows>([&](auto r) INLINED {
          sum[r][t] = _mm512_fmadd_ps(least, _mm512_set1_ps(sums[r * parts + at]), sum[r][t]);
        });
      });
    }
  }
  repeat<Tiles>([&](auto t) INLINED {
    repeat<Rows>([&](auto r) INLINED { finish(p.out, p.w, p.add, sum[r][t], row + r, tile + t); });
  });
}

/// Tiles that are multiplied together: beside runs of five or six bits, of several lines each, the
/// registers have room for two.
template <class Sum, int bits>
constexpr int tiles_together(int rows) {
  const int most = Sum::tiles_together(rows);
  return Decoder<bits>::words > 1 ? std::min(most, 2) : most;
}

template <class Sum, int bits, int most>
void few_rows(const Product& p, TileRun run) {
  with_constant<most>(p.out.rows, [&](auto rows) INLINED {
    constexpr int together = tiles_together<Sum, bits>(rows);
    int tile = run.first;
    const auto multiply = [&](auto tiles) INLINED {
      block<Sum, bits, rows, tiles>(p, p.staged, 0, tile, run.behind(tile + tiles),
                                    p.w.tile(tile) + p.w.scale_bytes());
      tile += tiles;
    };
    while (tile + together <= run.last)
      multiply(constant<together>);
    while (tile < run.last)
      multiply(constant<1>);
  });
}

/// Decodes a tile's codes to pairs of bf16 integers. words: the words of its first input.
template <int bits>
void decode(const Product& p, const std::byte* words, int inputs, std::byte* to) {
  const Decoder<bits> decoder(*p.table);
  for (int pair = 0; pair < inputs / 2; pair += Decoder<bits>::pairs) {
    const auto run = decoder.run(words);
    words += Decoder<bits>::words * line;
    repeat<Decoder<bits>::pairs>([&](auto i) INLINED {
      _mm512_store_si512(to, decoder.template numbers<i>(run));
      to += line;
    });
  }
}

/// Rows up to which codes are decoded in registers. A run of five bits fills too many of them.
template <int bits>
constexpr int in_registers_most = bits == 5 ? 8 : decoded_again_most;

/// Multiplies blocks of rows with one tile at a time.
template <int bits>
void many_rows(const Product& p, TileRun run, Scratch& scratch) {
  const bool once = p.out.rows > in_registers_most<bits>;
  std::byte* const numbers = once ? scratch.at_least(p.w.bf16_tile_bytes()) : nullptr;
  for (int tile = run.first; tile < run.last; ++tile) {
    const std::byte* const words = p.w.tile(tile) + p.w.scale_bytes();
    if (once)
      decode<bits>(p, words, p.w.padded_inputs(), numbers);
    for (int row = 0; row < p.out.rows; row += row_block)
      with_constant<row_block>(p.rows_of(row / row_block), [&](auto rows) INLINED {
        const auto multiply = [&](auto of, const std::byte* from) INLINED {
          block<PairSum, of, rows, 1>(p, p.rows(row / row_block), row, tile,
                                      row == 0 ? run.behind(tile + 1) : -1, from);
        };
        if constexpr (rows <= in_registers_most<bits>)
          if (!once)
            return multiply(constant<bits>, words);
        multiply(constant<decoded>, numbers);
      });
  }
}

template <int bits>
void product(const Product& p, TileRun run, Scratch& scratch) {
  constexpr int few = std::min(row_block, in_registers_most<bits>);
  if (p.out.rows <= few)
    few_rows<PairSum, bits, few>(p, run);
  else
    many_rows<bits>(p, run, scratch);
}

/// Sums each part of a row. Both halves of a vector are summed in the same order.
void sum_parts(float* sums, const float* in, int inputs, int part) {
  const __m512bh ones = __m512bh(_mm512_set1_epi16(0x3F80));
  for (int i = 0; i < inputs; i += 32) {
    const __m512 pairs =
        _mm512_dpbf16_ps(_mm512_setzero_ps(), __m512bh(pairs_of_row(in + i, inputs - i)), ones);
    const float low = _mm512_mask_reduce_add_ps(0x00FF, pairs);
    const float high = _mm512_mask_reduce_add_ps(0xFF00, pairs);
    if (part == 32) {
      *sums++ = low + high;
    } else {
      *sums++ = low;
      *sums++ = high;
    }
  }
}

} // namespace
} // namespace paceline::gpu::cpu

#undef ALWAYS_INLINE
#undef INLINED
PACELINE_TARGET_END

namespace paceline::gpu::cpu {
namespace {

std::size_t row_bytes(const PackedWeight& w) {
  return std::size_t(w.padded_inputs()) / 2 * pair_bytes;
}
float* sums_of(std::byte* staged, int rows, const PackedWeight& w) {
  return reinterpret_cast<float*>(staged + std::size_t(rows) * row_bytes(w));
}

CodeTable make_table(const ScaledCodes& how) {
  return CodeTable(how.bits, [&](std::uint8_t code) { return how.number(code); });
}
template <std::size_t... i>
std::array<CodeTable, sizeof...(i)> make_tables(std::index_sequence<i...>) {
  return {make_table(scaled_codes(WeightFormat(int(WeightFormat::q4_0) + int(i))))...};
}
/// Returns the table of a format; the tables of all formats are made once.
const CodeTable& table_of(WeightFormat format) {
  constexpr auto first = std::size_t(WeightFormat::q4_0);
  constexpr auto last = std::size_t(WeightFormat::iq4_xs);
  static const auto tables = make_tables(std::make_index_sequence<last - first + 1>());
  return tables[std::size_t(format) - first];
}

} // namespace

bool avx512_has_codes() {
  return has_tables_of_bytes();
}

std::size_t avx512_codes_staged_bytes(int rows, const PackedWeight& w) {
  const auto sums = std::size_t(w.codes().least ? w.parts() : 0);
  return std::size_t(rows) * (row_bytes(w) + sums * sizeof(float));
}

void avx512_sum_parts(float* sums, const float* row, const PackedWeight& w) {
  sum_parts(sums, row, w.inputs(), w.codes().part);
}

void avx512_stage_codes(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) {
  avx512_stage_pairs(staged, in, w.padded_inputs(), first, last);
  if (w.codes().least)
    for (int r = first; r < last; ++r)
      avx512_sum_parts(sums_of(staged, in.rows, w) + std::ptrdiff_t(r) * w.parts(), in.row(r), w);
}

void avx512_linear_codes_as_tiles(Tensor out, const std::byte* pairs, const float* sums,
                                  const PackedWeight& w, TileRun run, bool add) {
  const Product p{out, pairs, sums, w, add, &table_of(w.format())};
  with_bits(w.codes().bits, [&](auto bits) { few_rows<TileSum, bits, rows_as_tiles>(p, run); });
}

void avx512_decode_codes(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const Product p{{}, nullptr, nullptr, w, false, &table_of(w.format())};
  const std::byte* words =
      w.tile(tile) + w.scale_bytes() + std::size_t(first / 32) * w.block_bytes();
  with_bits(w.codes().bits, [&](auto bits) { decode<bits>(p, words, last - first, to); });
}

void avx512_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                         bool add, Scratch& scratch) {
  const Product p{out, staged, sums_of(const_cast<std::byte*>(staged), out.rows, w),
                  w,   add,    &table_of(w.format())};
  with_bits(w.codes().bits, [&](auto bits) { product<bits>(p, run, scratch); });
}

} // namespace paceline::gpu::cpu

#endif
