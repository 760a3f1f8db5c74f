// Products of rows that are rounded to 8 bits by vpdpbusd (Intel SDM volume 2; also AMD from Zen 4
// on), which multiplies unsigned bytes of a weight with signed ones of a row: four inputs of 16
// outputs at a time. A table of bytes turns codes of up to six bits into their numbers plus an
// offset; the offset's share of a sum is what the sum begins with, staged with the row. For few
// rows, codes are decoded in registers; for more, tiles are decoded once. AMX multiplies signed
// bytes of both, and gets numbers without an offset.
#include "gpu/cpu/avx512_int8.hpp"

#include "gpu/cpu/avx512_ahead.hpp"
#include "gpu/cpu/avx512_sums.hpp"
#include "gpu/cpu/avx512_words.hpp"
#include "gpu/cpu/int8_rows.hpp"

#if defined(__x86_64__)

#include <array>

namespace paceline::gpu::cpu {
namespace {

constexpr int fours = mx_block / 4; ///< Words of a row's block, each with the codes of four inputs.
constexpr std::size_t decoded_block_bytes = fours * line; ///< Bytes of a tile's decoded block.

/// The number of each code plus an offset; what stands above a code's bits does not matter.
struct ByteTable {
  alignas(64) std::uint8_t numbers[64] = {};
  ByteTable() = default;
  ByteTable(const IntegerCodes& how, int offset) {
    for (int i = 0; i < 64; ++i)
      numbers[i] =
          std::uint8_t(how.numbers[std::size_t(i % (1 << std::min(how.bits, 6)))] + offset);
  }
};

/// Returns a format's table without an offset; those of all formats are made once.
const ByteTable& signed_table(WeightFormat format) {
  static const auto tables = [] {
    std::array<ByteTable, std::size_t(WeightFormat::iq4_xs) + 1> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (const IntegerCodes* how = integer_codes(WeightFormat(int(i))))
        all[i] = ByteTable(*how, 0);
    return all;
  }();
  return tables[std::size_t(format)];
}

struct Product {
  Tensor out;
  const std::byte* staged;
  const PackedWeight& w;
  const IntegerCodes& how;
  bool add;
  Int8Rows at;
  ByteTable table;
};

std::size_t decoded_tile_bytes(const PackedWeight& w) {
  return std::size_t(w.blocks()) * decoded_block_bytes;
}

} // namespace
} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// Decodes a block of 32 inputs to unsigned bytes, four inputs of each output a vector. four: 0 to
/// 7, in ascending order.
template <int bits>
class Decoder {
public:
  explicit Decoder(const ByteTable& table) : table_(_mm512_load_si512(table.numbers)) {}

  template <int four>
  ALWAYS_INLINE __m512i numbers(const std::byte* block) const {
    if constexpr (bits == decoded)
      return load(block, four);
    else if constexpr (bits == 8)
      return _mm512_xor_si512(load(block, four), _mm512_set1_epi8(char(0x80)));
    else
      return _mm512_permutexvar_epi8(index<four>(block), table_);
  }

private:
  ALWAYS_INLINE static __m512i load(const std::byte* block, int word) {
    return _mm512_load_si512(block + std::size_t(word) * line);
  }
  /// See pack_words. Bits above a code's come from its neighbours.
  template <int four>
  ALWAYS_INLINE static __m512i index(const std::byte* block) {
    constexpr int run = bits == 6 ? 4 : 8; // Vectors of a run with common upper bits.
    constexpr int above = bits - 4;
    constexpr int first = four / run * (run / 2 + (above > 0)); // Word at which the run begins.
    constexpr int own = four % run;
    const __m512i lower = shifted_right<own % 2 * 4>(load(block, first + own / 2));
    if constexpr (above == 0) {
      return lower;
    } else {
      constexpr int either = 0xCA; // Code for vpternlog: the first operand's bits choose.
      const __m512i upper = load(block, first + run / 2);
      return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), lower,
                                       shifted_right<own * above - 4>(upper), either);
    }
  }

  __m512i table_;
};

ALWAYS_INLINE float number(const std::byte* from) {
  return *reinterpret_cast<const float*>(from);
}
ALWAYS_INLINE int integer(const std::byte* from) {
  return *reinterpret_cast<const int*>(from);
}

/// The scales of a tile's parts, one after another.
class PartScales {
public:
  ALWAYS_INLINE void begin(const PackedWeight& w, int tile) {
    record_ = own_ = w.tile(tile);
    left_ = 0;
  }
  /// Reads the next part's scale, in units of what a number of 1 means.
  ALWAYS_INLINE __m512 next(const PackedWeight& w, float unit) {
    if (is_mx(w.format())) {
      const __m128i codes = _mm_load_si128(reinterpret_cast<const __m128i*>(own_));
      own_ += tile_outputs;
      return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(codes), 23)),
                           _mm512_set1_ps(unit));
    }
    const ScaledCodes& how = w.codes();
    const std::size_t numbers = how.least ? 2 : 1;
    if (left_ == 0) {
      left_ = how.parts();
      record_ = own_;
      own_ += 2 * tile_outputs * numbers;
    }
    --left_;
    __m512 scale = halves(record_);
    if (how.parts() > 1) {
      scale = _mm512_mul_ps(scale, bytes(own_));
      own_ += tile_outputs * numbers;
    }
    return scale;
  }
  /// Reads the least value of the part that was read last.
  ALWAYS_INLINE __m512 least(const PackedWeight& w) const {
    const __m512 whole = halves(record_ + 2 * tile_outputs);
    return w.codes().parts() > 1 ? _mm512_mul_ps(whole, bytes(own_ - tile_outputs)) : whole;
  }

private:
  const std::byte* record_;
  const std::byte* own_; ///< What the next part has of its own, or the next record.
  int left_;             ///< Parts that are left of the record.
};

/// Returns the lines of a block's codes that have been read behind `four` times four inputs.
template <int bits>
constexpr int lines_behind(int four) {
  return bits == decoded ? 0 : four * bits / fours;
}

/// Multiplies Rows rows from `row` on, all of one group, with Tiles tiles from `tile` on. words:
/// the weight's words, or the decoded tiles. next: the tile that follows, to be fetched.
template <int part, int bits, int Rows, int Tiles>
__attribute__((noinline)) void block(const Product& p, int row, int tile, int next,
                                     const std::byte* words) {
  const Decoder<bits> decoder(p.table);
  const std::size_t block_bytes = bits == decoded ? decoded_block_bytes : p.w.block_bytes();
  const std::size_t words_stride = bits == decoded ? decoded_tile_bytes(p.w) : p.w.tile_bytes();
  const auto group = std::size_t(p.at.group(row));
  const std::byte* in = p.staged + p.at.codes(row, 0);
  const std::byte* scale = p.staged + p.at.scale(row, 0);
  const std::byte* added = p.staged + p.at.added(row, 0);
  Ahead<bits, Tiles> ahead(p.w, tile, next, p.w.blocks());
  const bool least = p.w.has_least();
  const float unit = p.how.unit;
  __m512 sum[Rows][Tiles];
  PartScales scales[Tiles];
  repeat<Tiles>([&](auto t) INLINED {
    scales[t].begin(p.w, tile + t);
    repeat<Rows>([&](auto r) INLINED { sum[r][t] = _mm512_setzero_ps(); });
  });
  for (int left = p.w.blocks(); left > 0; --left) {
    ahead.part();
    repeat<mx_block / part>([&](auto of_block) INLINED {
      __m512i partial[Rows][Tiles];
      repeat<Rows>([&](auto r) INLINED {
        const __m512i begin =
            least ? _mm512_setzero_si512() : _mm512_set1_epi32(integer(added + r * sizeof(int)));
        repeat<Tiles>([&](auto t) INLINED { partial[r][t] = begin; });
      });
      repeat<part / 4>([&](auto of_part) INLINED {
        constexpr int four = of_block * (part / 4) + of_part;
        ahead.template lines_of_each<lines_behind<bits>(four + 1) - lines_behind<bits>(four)>();
        repeat<Tiles>([&](auto t) INLINED {
          const __m512i weights = decoder.template numbers<four>(words + t * words_stride);
          repeat<Rows>([&](auto r) INLINED {
            partial[r][t] = _mm512_dpbusd_epi32(
                partial[r][t], weights, _mm512_set1_epi32(integer(in + r * mx_block + four * 4)));
          });
        });
      });
      repeat<Tiles>([&](auto t) INLINED {
        const __m512 own = scales[t].next(p.w, unit);
        repeat<Rows>([&](auto r) INLINED {
          const __m512 both = _mm512_mul_ps(own, _mm512_set1_ps(number(scale + r * sizeof(float))));
          sum[r][t] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(partial[r][t]), sum[r][t]);
        });
        if (!least)
          return;
        const __m512 value = scales[t].least(p.w);
        repeat<Rows>([&](auto r) INLINED {
          sum[r][t] =
              _mm512_fmadd_ps(value, _mm512_set1_ps(number(added + r * sizeof(float))), sum[r][t]);
        });
      });
      added += group * sizeof(float);
    });
    words += block_bytes;
    in += group * mx_block;
    scale += group * sizeof(float);
  }
  repeat<Tiles>([&](auto t) INLINED {
    repeat<Rows>([&](auto r) INLINED { finish(p.out, p.w, p.add, sum[r][t], row + r, tile + t); });
  });
}

/// Rows and tiles whose sums are in registers together where codes are decoded there, and where
/// tiles are decoded once, so that a product waits for their loads.
constexpr int rows_together = 8, tiles_together = 2;
constexpr int panel_rows = 4, panel_tiles = 3;

/// Multiplies all rows with Tiles tiles, up to `most` rows at a time.
template <int part, int bits, int most, int Tiles>
void all_rows_of(const Product& p, int tile, int next, const std::byte* words) {
  for (int row = 0; row < p.out.rows;) {
    const int rows = std::min(most, p.at.group(row) - row % row_block);
    with_constant<most>(rows, [&](auto some) INLINED {
      block<part, bits, some, Tiles>(p, row, tile, row == 0 ? next : -1, words);
    });
    row += rows;
  }
}

template <int part, int bits>
void few_rows(const Product& p, TileRun run) {
  int tile = run.first;
  const auto multiply = [&](auto tiles) {
    all_rows_of<part, bits, rows_together, tiles>(p, tile, run.behind(tile + tiles),
                                                  p.w.tile(tile) + p.w.scale_bytes());
    tile += tiles;
  };
  while (tile + tiles_together <= run.last)
    multiply(constant<tiles_together>);
  while (tile < run.last)
    multiply(constant<1>);
}

/// Decodes blocks [first, last) of a tile, and prefetches those of the next one.
template <int bits>
void decode(const PackedWeight& w, const ByteTable& table, int tile, int first, int last,
            std::byte* to) {
  const Decoder<bits> decoder(table);
  const std::byte* words = w.tile(tile) + w.scale_bytes() + std::size_t(first) * w.block_bytes();
  for (int left = last - first; left > 0; --left, words += w.block_bytes()) {
    for (std::size_t ahead = 0; ahead < w.block_bytes(); ahead += line)
      _mm_prefetch(reinterpret_cast<const char*>(words + w.tile_bytes() + ahead), _MM_HINT_T1);
    repeat<fours>([&](auto four) INLINED {
      _mm512_store_si512(to, decoder.template numbers<four>(words));
      to += line;
    });
  }
}

template <int part, int bits>
void many_rows(const Product& p, int first, int last, Scratch& scratch) {
  std::byte* const room = scratch.at_least(panel_tiles * decoded_tile_bytes(p.w));
  for (; first < last; first += panel_tiles) {
    const int tiles = std::min(panel_tiles, last - first);
    for (int t = 0; t < tiles; ++t)
      decode<bits>(p.w, p.table, first + t, 0, p.w.blocks(),
                   room + std::size_t(t) * decoded_tile_bytes(p.w));
    with_constant<panel_tiles>(tiles, [&](auto together) INLINED {
      all_rows_of<part, decoded, panel_rows, together>(p, first, -1, room);
    });
  }
}

template <int part, int bits>
void product(const Product& p, TileRun run, Scratch& scratch) {
  if (p.out.rows <= decoded_again_most)
    few_rows<part, bits>(p, run);
  else
    many_rows<part, bits>(p, run.first, run.last, scratch);
}

/// Rounds and stages one block of a row.
void stage_block(std::byte* staged, const float* from, int count, const Int8Rows& at, int row,
                 int index, const IntegerCodes& how, bool least) {
  const auto mask = [&](int begin) {
    return __mmask16((1u << std::clamp(count - begin, 0, 16)) - 1u);
  };
  const __m512 low = _mm512_maskz_loadu_ps(mask(0), from);
  const __m512 high = _mm512_maskz_loadu_ps(mask(16), from + 16);
  const __m512 low_size = _mm512_abs_ps(low), high_size = _mm512_abs_ps(high);
  const float most = _mm512_reduce_max_ps(_mm512_max_ps(low_size, high_size));
  const __m512 largest = _mm512_set1_ps(std::numeric_limits<float>::max());
  const bool finite = _mm512_cmp_ps_mask(low_size, largest, _CMP_NLE_UQ) == 0 &&
                      _mm512_cmp_ps_mask(high_size, largest, _CMP_NLE_UQ) == 0;
  const bool some = finite && most >= int8_least;
  const float scale = some ? most / 127 : finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  const __m512 factor = _mm512_set1_ps(some ? 127 / most : 0.0f);
  const auto rounded = [&](__m512 x) INLINED {
    return _mm512_maskz_cvtps_epi32(some ? __mmask16(0xFFFF) : __mmask16(0),
                                    _mm512_mul_ps(x, factor));
  };
  const __m512i low_codes = rounded(low), high_codes = rounded(high);
  std::byte* const codes = staged + at.codes(row, index);
  _mm_store_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(low_codes));
  _mm_store_si128(reinterpret_cast<__m128i*>(codes + 16), _mm512_cvtepi32_epi8(high_codes));
  *reinterpret_cast<float*>(staged + at.scale(row, index)) = scale;
  const auto add_part = [&](int number, int sum) INLINED {
    std::byte* const to = staged + at.added(row, number);
    if (least)
      *reinterpret_cast<float*>(to) = scale * float(sum);
    else
      *reinterpret_cast<int*>(to) = -how.offset * sum;
  };
  if (how.part == mx_block)
    return add_part(index, _mm512_reduce_add_epi32(_mm512_add_epi32(low_codes, high_codes)));
  add_part(2 * index, _mm512_reduce_add_epi32(low_codes));
  add_part(2 * index + 1, _mm512_reduce_add_epi32(high_codes));
}

} // namespace

void avx512_stage_int8(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last) {
  const Int8Rows at(w, in.rows);
  for (int r = first; r < last; ++r)
    for (int b = 0; b < w.blocks(); ++b)
      stage_block(staged, in.row(r) + b * mx_block, in.cols - b * mx_block, at, r, b, *w.integers(),
                  w.has_least());
}

} // namespace paceline::gpu::cpu

#undef ALWAYS_INLINE
#undef INLINED
PACELINE_TARGET_END

namespace paceline::gpu::cpu {
namespace {

void all_rows(const Product& p, TileRun run, Scratch& scratch) {
  const bool halves_of_blocks = p.how.part == 16;
  switch (p.how.bits) {
  case 4:
    return halves_of_blocks ? product<16, 4>(p, run, scratch) : product<32, 4>(p, run, scratch);
  case 5: return product<32, 5>(p, run, scratch);
  case 6:
    return halves_of_blocks ? product<16, 6>(p, run, scratch) : product<32, 6>(p, run, scratch);
  default: return product<32, 8>(p, run, scratch);
  }
}

} // namespace

bool avx512_has_int8() {
  return has_tables_of_bytes();
}

void avx512_decode_int8(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const ByteTable& table = signed_table(w.format());
  const int begin = first / mx_block, end = last / mx_block;
  switch (w.integers()->bits) {
  case 4: return decode<4>(w, table, tile, begin, end, to);
  case 5: return decode<5>(w, table, tile, begin, end, to);
  default: return decode<6>(w, table, tile, begin, end, to);
  }
}

void avx512_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                        bool add, Scratch& scratch) {
  const IntegerCodes& how = *w.integers();
  const Product p{out, staged, w, how, add, Int8Rows(w, out.rows), ByteTable(how, how.offset)};
  for_moderate_tiles(w, run, [&](TileRun part, bool moderate) {
    if (moderate)
      all_rows(p, part, scratch);
    else
      linear_int8(out, staged, w, part, add);
  });
}

} // namespace paceline::gpu::cpu

#else

namespace paceline::gpu::cpu {

bool avx512_has_int8() {
  return false;
}
void avx512_stage_int8(std::byte* /*staged*/, Tensor /*in*/, const PackedWeight& /*w*/,
                       int /*first*/, int /*last*/) {}
void avx512_linear_int8(Tensor /*out*/, const std::byte* /*staged*/, const PackedWeight& /*w*/,
                        TileRun /*run*/, bool /*add*/, Scratch& /*scratch*/) {}

} // namespace paceline::gpu::cpu

#endif
