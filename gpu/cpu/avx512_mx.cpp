// Products of few rows with microscaling weights by vdpbf16ps. A block's codes are decoded to pairs
// of bf16 numbers in registers. These lack the scale: sums are in units of the current block's
// scales, and converted when the next block has others, which rounds nothing as long as scales and
// rows are moderate (highway_mx.cpp says why). So a product has the bits of the bf16 weight's.
#include "gpu/cpu/avx512_mx.hpp"

#include "gpu/cpu/avx512_ahead.hpp"
#include "gpu/cpu/avx512_decoders.hpp"
#include "gpu/cpu/avx512_sums.hpp"

#if defined(__x86_64__)

#include "gpu/mx.hpp"

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {
namespace {

/// A decoder of an element's codes.
template <const MxElement& E, int bits = E.bits()>
class MxDecoder : public Decoder<bits> {
public:
  MxDecoder() : Decoder<bits>(codes()) {}

private:
  static const CodeTable& codes() {
    static const CodeTable table(bits, [](std::uint8_t index) {
      constexpr auto format = &E == &e2m3 ? WeightFormat::mxfp6 : WeightFormat::mxfp6_e3m2;
      return decode_element(E, bits == 6 ? std::uint8_t(six_bits(format).to_code[index]) : index);
    });
    return table;
  }
};

template <const MxElement& E>
class MxDecoder<E, 8> : public ByteDecoder {
public:
  MxDecoder() : ByteDecoder(bytes()) {}
  ALWAYS_INLINE Run run(const std::byte* at) const {
    const __m512i codes = codes_at(at);
    return look_up<false>(codes, E.integer() ? _mm512_abs_epi8(codes) : codes);
  }

private:
  static const ByteTables& bytes() {
    static const ByteTables tables([](std::uint8_t code) { return decode_element(E, code); });
    return tables;
  }
};

ALWAYS_INLINE __m512i exponents(const std::byte* scales) {
  return _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(scales)));
}
ALWAYS_INLINE __m512 power_of_two(__m512i biased_exponent) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased_exponent, 23));
}

struct Product {
  Tensor out;
  const std::byte* staged;
  const PackedWeight& w;
  bool add;
};

/// Multiplies all rows with Tiles tiles from `tile` on. next: the tile that follows, to be fetched.
template <class Sum, const MxElement& E, int Rows, int Tiles>
__attribute__((noinline)) void block(const Product& p, int tile, int next) {
  const MxDecoder<E> decoder;
  const std::size_t tile_bytes = p.w.tile_bytes();
  const std::byte* in = p.staged;
  const std::byte* scales = p.w.tile(tile);
  const std::byte* words = scales + p.w.scale_bytes();
  Ahead<E.bits(), Tiles> ahead(p.w, tile, next, p.w.blocks());
  constexpr std::size_t run_bytes = MxDecoder<E>::words * line;
  __m512 sum[Rows][Tiles];
  __m512i before[Tiles];
  repeat<Tiles>([&](auto t) INLINED {
    before[t] = exponents(scales + t * tile_bytes);
    repeat<Rows>([&](auto r) INLINED { sum[r][t] = _mm512_setzero_ps(); });
  });
  for (int left = p.w.blocks(); left > 0; --left, scales += tile_outputs) {
    ahead.part();
    repeat<Tiles>([&](auto t) INLINED {
      const __m512i now = exponents(scales + t * tile_bytes);
      const __m512 factor =
          power_of_two(_mm512_add_epi32(_mm512_sub_epi32(before[t], now), _mm512_set1_epi32(127)));
      repeat<Rows>([&](auto r) INLINED { sum[r][t] = _mm512_mul_ps(sum[r][t], factor); });
      before[t] = now;
    });
    Sum own[Rows][Tiles];
    repeat<Tiles>(
        [&](auto t) INLINED { repeat<Rows>([&](auto r) INLINED { own[r][t] = Sum(sum[r][t]); }); });
    for (int run = 0; run < mx_block / 2 / MxDecoder<E>::pairs; ++run, words += run_bytes) {
      typename MxDecoder<E>::Run runs[Tiles];
      repeat<Tiles>([&](auto t) INLINED {
        const std::byte* at = words + t * tile_bytes;
        runs[t] = decoder.run(at);
      });
      ahead.template lines_of_each<MxDecoder<E>::words>();
      repeat<MxDecoder<E>::pairs>([&](auto pair) INLINED {
        repeat<Tiles>([&](auto t) INLINED {
          const __m512i weights = decoder.template numbers<pair>(runs[t]);
          repeat<Rows>([&](auto r) INLINED { own[r][t].add(weights, in + r * pair_bytes); });
        });
        in += Rows * pair_bytes;
      });
    }
    repeat<Tiles>([&](auto t) INLINED {
      repeat<Rows>([&](auto r) INLINED { sum[r][t] = own[r][t].behind(sum[r][t]); });
    });
  }
  repeat<Tiles>([&](auto t) INLINED {
    repeat<Rows>([&](auto r) INLINED {
      finish(p.out, p.w, p.add, _mm512_mul_ps(sum[r][t], power_of_two(before[t])), r, tile + t);
    });
  });
}

template <class Sum, const MxElement& E, int Rows>
void product_of(const Product& p, TileRun run) {
  if constexpr (Rows > 1) {
    if (p.out.rows < Rows)
      return product_of<Sum, E, Rows - 1>(p, run);
  }
  constexpr int together = Sum::tiles_together(Rows);
  int tile = run.first;
  for (; tile + together <= run.last; tile += together)
    block<Sum, E, Rows, together>(p, tile, run.behind(tile + together));
  for (; tile < run.last; ++tile)
    block<Sum, E, Rows, 1>(p, tile, run.behind(tile + 1));
}

template <class Sum, int most_rows>
void product(const Product& p, TileRun run) {
  switch (p.w.format()) {
  case WeightFormat::mxfp8: return product_of<Sum, e4m3, most_rows>(p, run);
  case WeightFormat::mxfp8_e5m2: return product_of<Sum, e5m2, most_rows>(p, run);
  case WeightFormat::mxfp6: return product_of<Sum, e2m3, most_rows>(p, run);
  case WeightFormat::mxfp6_e3m2: return product_of<Sum, e3m2, most_rows>(p, run);
  case WeightFormat::mxfp4: return product_of<Sum, e2m1, most_rows>(p, run);
  default: return product_of<Sum, int8, most_rows>(p, run);
  }
}

/// Implements DecodeBlocks. The scale is added to the exponents of numbers that are not zero.
template <const MxElement& E>
void decode(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  const MxDecoder<E> decoder;
  const std::byte* scales = w.tile(tile) + first * tile_outputs;
  const std::byte* words = w.tile(tile) + w.scale_bytes() + std::size_t(first) * w.block_bytes();
  for (; first < last; ++first, scales += tile_outputs) {
    const __m512i power = _mm512_sub_epi32(exponents(scales), _mm512_set1_epi32(127));
    const __m512i low = _mm512_slli_epi32(power, 7);
    const __m512i both = _mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_slli_epi32(low, 16));
    for (int run = 0; run < mx_block / 2 / MxDecoder<E>::pairs; ++run) {
      const auto all = decoder.run(words);
      words += MxDecoder<E>::words * line;
      repeat<MxDecoder<E>::pairs>([&](auto pair) INLINED {
        const __m512i numbers = decoder.template numbers<pair>(all);
        const __mmask32 some = _mm512_test_epi16_mask(numbers, _mm512_set1_epi16(0x7FFF));
        _mm512_store_si512(to, _mm512_mask_add_epi16(numbers, some, numbers, both));
        to += line;
      });
    }
  }
}

void decode_blocks(const PackedWeight& w, int tile, int first, int last, std::byte* to) {
  switch (w.format()) {
  case WeightFormat::mxfp8: return decode<e4m3>(w, tile, first, last, to);
  case WeightFormat::mxfp8_e5m2: return decode<e5m2>(w, tile, first, last, to);
  case WeightFormat::mxfp6: return decode<e2m3>(w, tile, first, last, to);
  case WeightFormat::mxfp6_e3m2: return decode<e3m2>(w, tile, first, last, to);
  case WeightFormat::mxfp4: return decode<e2m1>(w, tile, first, last, to);
  default: return decode<int8>(w, tile, first, last, to);
  }
}

/// Returns whether all staged bf16 numbers are 0 or of a size from 2^-60 up to 2^16.
bool all_moderate(const std::byte* staged, std::size_t bytes) {
  constexpr int least = (127 - 60) << 7, most = (127 + 16) << 7;
  for (std::size_t at = 0; at < bytes; at += line) {
    const __m512i size =
        _mm512_and_si512(_mm512_load_si512(staged + at), _mm512_set1_epi16(0x7FFF));
    const __m512i above = _mm512_sub_epi16(size, _mm512_set1_epi16(least));
    if (_mm512_mask_cmpge_epu16_mask(_mm512_test_epi16_mask(size, size), above,
                                     _mm512_set1_epi16(most - least)))
      return false;
  }
  return true;
}

} // namespace
} // namespace paceline::gpu::cpu

#undef ALWAYS_INLINE
#undef INLINED
PACELINE_TARGET_END

namespace paceline::gpu::cpu {

DecodeBlocks* avx512_decode_blocks() {
  return has_tables_of_bytes() ? decode_blocks : nullptr;
}

bool avx512_decodes_for(const std::byte* staged, int rows, const PackedWeight& w) {
  return has_tables_of_bytes() && rows <= decoded_again_most &&
         all_moderate(staged, std::size_t(rows) * std::size_t(w.padded_inputs()) / 2 * pair_bytes);
}

void avx512_linear_mx(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add) {
  const auto block = std::size_t(w.padded_inputs()) / 2 * row_block * pair_bytes;
  const int most = out.rows <= row_block ? run.last - run.first : 1; // Stay for all blocks of rows.
  for (int tile = run.first; tile < run.last; tile += most)
    for (int row = 0; row < out.rows; row += row_block)
      product<PairSum, row_block>({out.slice(row, std::min(row_block, out.rows - row)),
                                   staged + std::size_t(row / row_block) * block, w, add},
                                  {tile, tile + most, row == 0 ? run.behind(tile + most) : -1});
}

void avx512_linear_mx_as_tiles(Tensor out, const std::byte* staged, const PackedWeight& w,
                               TileRun run, bool add) {
  product<TileSum, rows_as_tiles>({out, staged, w, add}, run);
}

} // namespace paceline::gpu::cpu

#else

namespace paceline::gpu::cpu {

DecodeBlocks* avx512_decode_blocks() {
  return nullptr;
}

} // namespace paceline::gpu::cpu

#endif
