// Products of rows that are rounded to 8 bits in the portable kernels. On x86, bytes are multiplied
// as such: pairs of products are summed in 16 bits, as many as cannot overflow, and then in 32. The
// instruction wants one unsigned factor. That is a weight's number plus an offset, whose share of a
// sum is staged with the row, or, where the sum of two products could overflow, the number's size,
// and the row's byte has the sign. Elsewhere integers are multiplied as floats, which is exact.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_int8.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway_words-inl.hpp"
#include "gpu/cpu/int8_rows.hpp"

#include <cstring>
#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// How codes are packed, and how they become numbers.
enum class Codes {
  four,   ///< 4 bits, by a table of 16 numbers that are small.
  uneven, ///< The same; numbers may be as large as a byte.
  five,   ///< 5 bits, numbers from the first one's on.
  six,    ///< 6 bits, the same.
  e2m3,   ///< 6 bits in the order of SixBits.
  eight,  ///< Numbers of 8 bits.
};
constexpr int bits_of(Codes codes) {
  return codes == Codes::eight                         ? 8
         : codes == Codes::five                        ? 5
         : codes == Codes::six || codes == Codes::e2m3 ? 6
                                                       : 4;
}
constexpr bool is_small(Codes codes) {
  return codes != Codes::uneven && codes != Codes::eight;
}

/// Whether bytes are multiplied as such.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool by_bytes = true;
#else
constexpr bool by_bytes = false;
#endif

struct Product {
  Tensor out;
  const std::byte* staged = nullptr;
  const PackedWeight& w;
  const IntegerCodes& how;
  bool add = false;
  Int8Rows at;
  Table numbers{};         ///< Numbers of codes of 4 bits, plus `offset`.
  std::uint8_t offset = 0; ///< Added to all numbers of small codes, and staged with the rows.
};

/// Returns the bytes of inputs 4 `four` to 4 `four` + 3 of a block of 32: numbers plus the
/// product's offset.
template <Codes codes, int four>
HWY_INLINE W16 bytes_of(const Product& p, const std::uint32_t* block) {
  constexpr int bits = bits_of(codes);
  constexpr int run = bits == 6 ? 4 : 8; // Fours with common upper bits.
  constexpr int above = bits - 4;
  constexpr int first = bits == 8 ? four : four / run * (run / 2 + (above > 0)) + four % run / 2;
  const W16 word = load_words(block + first * tile_outputs);
  if constexpr (bits == 8) {
    return word;
  } else {
    return each_word([&](int i) INLINED {
      const auto low = bits_of_bytes<four % 2 * 4>(word.part[i], 15);
      if constexpr (bits == 4) {
        return look_up(p.numbers, low);
      } else {
        constexpr int last = four / run * (run / 2 + 1) + run / 2;
        const auto upper = hn::LoadU(Words(), block + last * tile_outputs + i * lanes);
        const auto high = bits_of_bytes<above*(four % run)>(upper, (1 << above) - 1);
        const auto moved = [&](auto bytes) INLINED {
          return hn::BitCast(Words(),
                             hn::Add(hn::BitCast(Bytes(), bytes), hn::Set(Bytes(), p.offset)));
        };
        if constexpr (codes == Codes::e2m3) {
          static constexpr SixBitTables tables = tables_of_e2m3();
          const auto first_part = hn::BitCast(Bytes(), look_up(tables.first, low));
          const auto second_part = hn::BitCast(Bytes(), look_up(tables.second, hn::Xor(low, high)));
          return moved(hn::Add(first_part, second_part));
        } else {
          return moved(hn::Or(low, hn::ShiftLeft<4>(high)));
        }
      }
    });
  }
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

using Shorts = hn::Repartition<std::int16_t, D>;

/// Sums the products of two neighbouring bytes in 16 bits.
HWY_INLINE hn::Vec<Shorts> pairs(hn::Vec<Words> unsigned_bytes, hn::Vec<Words> signed_bytes) {
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<Shorts>{_mm256_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#else
  return hn::Vec<Shorts>{_mm512_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#endif
}
/// Sums the neighbouring numbers of 16 bits in 32.
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> widened(hn::Vec<Shorts> sums) {
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<hn::RebindToSigned<D>>{_mm256_madd_epi16(sums.raw, _mm256_set1_epi16(1))};
#else
  return hn::Vec<hn::RebindToSigned<D>>{_mm512_madd_epi16(sums.raw, _mm512_set1_epi16(1))};
#endif
}

/// The sum of a part's products with one row, in 16 bits and in 32.
template <Codes codes>
class PartSum {
public:
  /// Pairs of products that are summed in 16 bits: with codes of 4, 5 and 6 bits a pair is at most
  /// 24 * 254, 31 * 254 and 120 * 254; with others 128 * 254.
  static constexpr int together = codes == Codes::four   ? 5
                                  : codes == Codes::five ? 4
                                  : codes == Codes::six  ? 2
                                                         : 1;

  HWY_INLINE explicit PartSum(int begin) {
    repeat<parts>([&](auto i) INLINED { whole_[i] = hn::Set(Signed(), begin); });
  }
  /// four: counted within the part. count: of the part's.
  template <int four, int count>
  HWY_INLINE void add(const W16& weights, const std::int8_t* row) {
    std::uint32_t bytes;
    std::memcpy(&bytes, row, sizeof(bytes));
    const auto in = hn::Set(Words(), bytes);
    repeat<parts>([&](auto i) INLINED {
      auto with = weights.part[i];
      auto signed_in = in;
      if constexpr (!is_small(codes)) {
        const auto as_signed = hn::BitCast(SignedBytes(), with);
        const auto negative = hn::Lt(as_signed, hn::Zero(SignedBytes()));
        const auto row_bytes = hn::BitCast(SignedBytes(), in);
        signed_in = hn::BitCast(Words(), hn::IfThenElse(negative, hn::Neg(row_bytes), row_bytes));
        with = hn::BitCast(Words(), hn::Abs(as_signed));
      }
      const auto two = pairs(with, signed_in);
      sums_[i] = four % together == 0 ? two : hn::Add(sums_[i], two);
      if constexpr (four % together == together - 1 || four == count - 1)
        whole_[i] = hn::Add(whole_[i], widened(sums_[i]));
    });
  }
  HWY_INLINE V16 total() const {
    return each([&](int i) INLINED { return hn::ConvertTo(D(), whole_[i]); });
  }

private:
  using Signed = hn::RebindToSigned<D>;
  using SignedBytes = hn::Repartition<std::int8_t, D>;
  hn::Vec<Shorts> sums_[parts];
  hn::Vec<Signed> whole_[parts];
};

#else

/// The sum of a part's products with one row, as floats.
template <Codes codes>
class PartSum {
public:
  HWY_INLINE explicit PartSum(int /*begin*/) : sum_(splat(0)) {}
  template <int four, int count>
  HWY_INLINE void add(const W16& weights, const std::int8_t* row) {
    repeat<4>([&](auto j) INLINED {
      const V16 numbers = each([&](int i) INLINED {
        return hn::ConvertTo(
            D(), hn::BitCast(hn::RebindToSigned<D>(), highest_byte<j>(weights.part[i])));
      });
      sum_ = mul_add(numbers, splat(float(row[j])), sum_);
    });
  }
  /// A number was in the highest byte.
  HWY_INLINE V16 total() const { return mul(sum_, splat(0x1p-24f)); }

private:
  V16 sum_;
};

#endif

HWY_INLINE V16 load_halves(const std::byte* from) {
  return ReadF16::even(from, 0);
}
template <class Integer>
HWY_INLINE V16 load_bytes(const std::byte* from) {
  return each([&](int i) INLINED {
    const auto* at = reinterpret_cast<const Integer*>(from) + i * lanes;
    return hn::ConvertTo(
        D(), hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(hn::Rebind<Integer, D>(), at)));
  });
}
/// Returns powers of two times the unit. codes: of moderate scales.
HWY_INLINE V16 load_powers(const std::byte* codes, float unit) {
  return each([&](int i) INLINED {
    const auto* at = reinterpret_cast<const std::uint8_t*>(codes) + i * lanes;
    const auto wide = hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), at));
    return hn::Mul(hn::BitCast(D(), hn::ShiftLeft<23>(wide)), hn::Set(D(), unit));
  });
}

/// The scale, and maybe the least value, of a part in 16 outputs.
struct PartScale {
  V16 scale;
  V16 least;
};

/// Reads a tile's scale and least value of part `at`.
HWY_INLINE PartScale scale_of(const Product& p, const std::byte* tile, int at) {
  if (is_mx(p.w.format()))
    return {load_powers(tile + at * tile_outputs, p.how.unit), splat(0)};
  const ScaledCodes& how = p.w.codes();
  const std::size_t numbers = how.least ? 2 : 1;
  const std::byte* const record = tile + std::size_t(at / how.parts()) * p.w.record_bytes();
  PartScale of{load_halves(record), splat(0)};
  if (how.least)
    of.least = load_halves(record + 2 * tile_outputs);
  if (how.parts() == 1)
    return of;
  const std::byte* const own =
      record + tile_outputs * numbers * (2 + std::size_t(at % how.parts()));
  of.scale = mul(of.scale, load_bytes<std::int8_t>(own));
  if (how.least)
    of.least = mul(of.least, load_bytes<std::int8_t>(own + tile_outputs));
  return of;
}

float number_at(const std::byte* from) {
  float number;
  std::memcpy(&number, from, sizeof(number));
  return number;
}
int integer_at(const std::byte* from) {
  int integer;
  std::memcpy(&integer, from, sizeof(integer));
  return integer;
}

/// Computes 16 outputs of Rows rows of one group. The next tile is prefetched into the second-level
/// cache.
template <Codes codes, int part, int Rows>
HWY_NOINLINE void product_block(const Product& p, int row, int tile) {
  constexpr int fours = part / 4;
  const std::byte* const weights = p.w.tile(tile);
  const auto* words = reinterpret_cast<const std::uint32_t*>(weights + p.w.scale_bytes());
  const std::byte* next = weights + p.w.tile_bytes();
  const std::size_t next_bytes = p.w.tile_bytes() / std::size_t(p.w.blocks()) + 1;
  V16 sum[Rows];
  repeat<Rows>([&](auto r) INLINED { sum[r] = splat(0); });
  for (int block = 0; block < p.w.blocks(); ++block, words += bits_of(codes) * tile_outputs) {
    for (std::size_t ahead = 0; ahead < next_bytes; ahead += 64)
      hwy::Prefetch(next + ahead);
    next += next_bytes;
    repeat<mx_block / part>([&](auto of_block) INLINED {
      const int at = block * (mx_block / part) + of_block;
      const std::byte* const added = p.staged + p.at.added(row, at);
      const auto* in =
          reinterpret_cast<const std::int8_t*>(p.staged + p.at.codes(row, block)) + of_block * part;
      const bool begins_at_offset = is_small(codes) && by_bytes && !p.w.has_least();
      PartSum<codes> partial[] = {PartSum<codes>(0), PartSum<codes>(0), PartSum<codes>(0),
                                  PartSum<codes>(0)};
      static_assert(Rows <= 4);
      repeat<Rows>([&](auto r) INLINED {
        if (begins_at_offset)
          partial[r] = PartSum<codes>(integer_at(added + r * sizeof(float)));
      });
      repeat<fours>([&](auto four) INLINED {
        const W16 bytes = bytes_of<codes, of_block * fours + four>(p, words);
        repeat<Rows>([&](auto r) INLINED {
          partial[r].template add<four, fours>(bytes, in + r * mx_block + 4 * four);
        });
      });
      const PartScale of = scale_of(p, weights, at);
      const std::byte* const scale = p.staged + p.at.scale(row, block);
      repeat<Rows>([&](auto r) INLINED {
        const V16 both = mul(of.scale, splat(number_at(scale + r * sizeof(float))));
        sum[r] = mul_add(both, partial[r].total(), sum[r]);
        if (p.w.has_least())
          sum[r] = mul_add(of.least, splat(number_at(added + r * sizeof(float))), sum[r]);
      });
    });
  }
  repeat<Rows>([&](auto r) INLINED {
    const int first = tile * tile_outputs;
    const int count = std::min(tile_outputs, p.w.outputs() - first);
    float* out = p.out.row(row + r) + first;
    store_n(p.add ? add(load_n(out, count), sum[r]) : sum[r], out, count);
  });
}

constexpr int rows_together = 4;

template <Codes codes, int part>
void product(const Product& p, int first, int last) {
  for (; first < last; ++first) {
    if (is_mx(p.w.format()) && !p.w.moderate(first)) { // A scale may be none.
      linear_int8(p.out, p.staged, p.w, {first, first + 1}, p.add);
      continue;
    }
    for (int row = 0; row < p.out.rows;) {
      const int rows = std::min(rows_together, p.at.group(row) - row % row_block);
      with_constant<rows_together>(
          rows, [&](auto some) INLINED { product_block<codes, part, some>(p, row, first); });
      row += rows;
    }
  }
}

} // namespace

void linear_int8_rows(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add) {
  const IntegerCodes& how = *w.integers();
  const bool uneven = how.bits == 4 && how.offset > 64;
  Product p{out, staged, w, how, add, Int8Rows(w, out.rows)};
  if (by_bytes && how.bits < 8 && !uneven)
    p.offset = std::uint8_t(how.offset);
  for (int code = 0; code < 16; ++code)
    p.numbers.bytes[code] = std::uint8_t(how.numbers[std::size_t(code)] + p.offset);
  if (how.bits > 4 &&
      w.format() != WeightFormat::mxfp6) // Codes are their numbers from the first on.
    p.offset = std::uint8_t(p.offset + how.numbers[0]);
  switch (how.bits) {
  case 4:
    if (uneven)
      return product<Codes::uneven, 32>(p, run.first, run.last);
    return how.part == 16 ? product<Codes::four, 16>(p, run.first, run.last)
                          : product<Codes::four, 32>(p, run.first, run.last);
  case 5: return product<Codes::five, 32>(p, run.first, run.last);
  case 6:
    return how.part == 16 ? product<Codes::six, 16>(p, run.first, run.last)
                          : product<Codes::e2m3, 32>(p, run.first, run.last);
  default: return product<Codes::eight, 32>(p, run.first, run.last);
  }
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
