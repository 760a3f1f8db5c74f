// Attention of the portable kernels: a running softmax over blocks of keys, for the queries of a
// group together. A lane is a key in scores, and a dimension in sums.
#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway_attention.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"

#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace {

/// Queries that share reading keys and values, and chunks of 16 lanes that they process at a time.
constexpr int queries_together = parts == 1 ? 4 : 3;
constexpr int chunks_together = parts == 1 ? 4 : parts == 2 ? 2 : 1;

/// Reads codes of 8 bits, as ReadF32 reads numbers.
struct ReadInt8 {
  static constexpr std::size_t bytes = 1;
  static constexpr std::size_t lane_bytes = 1;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return each([&](int i) INLINED {
      const hn::Rebind<std::int8_t, D> codes;
      const auto* at = reinterpret_cast<const std::int8_t*>(from) + i * lanes;
      return hn::ConvertTo(D(), hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(codes, at)));
    });
  }
  HWY_INLINE static V16 odd(const std::byte* from, int stride) { return even(from + stride, 0); }
};
template <class Read>
constexpr bool has_scales = std::is_same_v<Read, ReadInt8>;

/// The part of one page that a block of keys covers.
struct KeyRun {
  const std::byte* keys; // keys of the page's slot 0
  const std::byte* values;
  int slot;  // even
  int first; // index in the block
  int count;
};

struct Queries {
  const float* q;       // [Q, dim], scaled
  float* out;           // [Q, dim], running sums
  float* probabilities; // [Q, key_block]
  int dim;
  int page_tokens;
};

/// Computes scores of Q queries with Chunks * 16 keys from `slot` on.
template <class Read, int Q, int Chunks>
HWY_INLINE void scores(const Queries& s, const std::byte* keys, int slot, int at) {
  const std::size_t row = std::size_t(s.page_tokens) * 2 * Read::bytes;
  V16 acc[Q][Chunks];
  repeat<Q>([&](auto i) INLINED { repeat<Chunks>([&](auto c) INLINED { acc[i][c] = splat(0); }); });
  const std::byte* from = keys + std::size_t(slot) * Read::lane_bytes;
  for (int d = 0; d < s.dim; d += 2, from += row) {
    V16 rows[Chunks];
    const auto accumulate = [&](int at_d) INLINED {
      repeat<Q>([&](auto i) INLINED {
        const V16 q = splat(s.q[i * s.dim + at_d]);
        repeat<Chunks>([&](auto c) INLINED { acc[i][c] = mul_add(rows[c], q, acc[i][c]); });
      });
    };
    repeat<Chunks>([&](auto c) INLINED {
      rows[c] = Read::even(from + std::size_t(c) * 16 * Read::lane_bytes, s.page_tokens);
    });
    accumulate(d);
    repeat<Chunks>([&](auto c) INLINED {
      rows[c] = Read::odd(from + std::size_t(c) * 16 * Read::lane_bytes, s.page_tokens);
    });
    accumulate(d + 1);
  }
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>(
        [&](auto c) INLINED { store(acc[i][c], s.probabilities + i * key_block + at + 16 * c); });
  });
}

/// Adds probabilities * values to out, for Chunks * 16 dimensions from `d` on. Values in slots
/// before key `hidden` of the block and after the last are not used.
template <class Read, int Q, int Chunks>
HWY_INLINE void weighted_values(const Queries& s, const KeyRun* runs, int count, int hidden,
                                int d) {
  const std::size_t row = std::size_t(s.dim) * 2 * Read::bytes;
  V16 acc[Q][Chunks];
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>([&](auto c) INLINED { acc[i][c] = load(s.out + i * s.dim + d + 16 * c); });
  });
  for (const KeyRun* run = runs; run != runs + count; ++run) {
    const std::byte* from =
        run->values + std::size_t(run->slot / 2) * row + std::size_t(d) * Read::lane_bytes;
    V16 rows[Chunks];
    const auto accumulate = [&](int key) INLINED {
      repeat<Q>([&](auto i) INLINED {
        const V16 p = splat(s.probabilities[i * key_block + key]);
        repeat<Chunks>([&](auto c) INLINED { acc[i][c] = mul_add(rows[c], p, acc[i][c]); });
      });
    };
    for (int j = 0; j < run->count; j += 2, from += row) {
      repeat<Chunks>([&](auto c) INLINED {
        rows[c] = Read::even(from + std::size_t(c) * 16 * Read::lane_bytes, s.dim);
      });
      if (run->first + j >= hidden)
        accumulate(run->first + j);
      if (j + 1 == run->count)
        break;
      repeat<Chunks>([&](auto c) INLINED {
        rows[c] = Read::odd(from + std::size_t(c) * 16 * Read::lane_bytes, s.dim);
      });
      accumulate(run->first + j + 1);
    }
  }
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>([&](auto c) INLINED { store(acc[i][c], s.out + i * s.dim + d + 16 * c); });
  });
}

struct AsItIs {
  HWY_INLINE V16 operator()(const V16& x) const { return x; }
};
struct RoundedBf16 {
  HWY_INLINE V16 operator()(const V16& x) const { return round_bf16(x); }
};

/// Turns scores [begin, end) of `count` (a multiple of 16) into weights, the others into 0; returns
/// the factor for earlier sums.
template <class Rounding>
HWY_INLINE float weigh(Softmax& softmax, float* row, int begin, int end, int count, float soft_cap,
                       const Rounding& rounded) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  for (int j = 0; soft_cap > 0 && j < count; j += 16)
    store(soft_capped(load(row + j), soft_cap), row + j);
  std::fill(row, row + begin, never);
  std::fill(row + end, row + count, never);
  V16 top = load(row);
  for (int j = 16; j < count; j += 16)
    top = cpu::HWY_NAMESPACE::max(top, load(row + j));
  const float now = std::max(softmax.highest, cpu::HWY_NAMESPACE::highest(top));
  const V16 shift = splat(-now);
  V16 sums = splat(0);
  for (int j = 0; j < count; j += 16) {
    const V16 weight = rounded(exp(add(load(row + j), shift)));
    store(weight, row + j);
    sums = add(sums, weight);
  }
  // Mostly a block brings no higher score.
  const float factor =
      now == softmax.highest ? 1 : hn::GetLane(hn::Exp(D(), hn::Set(D(), softmax.highest - now)));
  softmax.total = softmax.total * factor + sum(sums);
  softmax.highest = now;
  return factor;
}

/// Finds the pages that hold keys [first, first + count); returns their number.
HWY_INLINE int runs_of_block(const KvHead& kv, int first, int count, KeyRun* runs) {
  int n = 0;
  for (int done = 0; done < count; ++n) {
    const int page = (first + done) / kv.page_tokens;
    const int slot = (first + done) % kv.page_tokens;
    const int here = std::min(kv.page_tokens - slot, count - done);
    runs[n] = {kv.keys(page), kv.values(page), slot, done, here};
    done += here;
  }
  return n;
}

/// Copies keys of pages that vectors do not fit, into the order of one page of key_block slots.
template <class Read>
void gather_keys(const KvHead& kv, const KeyRun* runs, int count, std::byte* to) {
  constexpr std::size_t bytes = Read::lane_bytes; // Of a slot in a row.
  const int rows = kv.head_dim * int(Read::bytes) / int(bytes);
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < count; ++i)
      std::memcpy(to + std::size_t(row * key_block + runs[i].first) * bytes,
                  runs[i].keys + std::size_t(row * kv.page_tokens + runs[i].slot) * bytes,
                  std::size_t(runs[i].count) * bytes);
}

/// The scales of a block's keys and values of int8. Scores and weights are multiplied by them, so
/// that products are of codes.
class BlockScales {
public:
  void read(const KvHead& kv, int first, const KeyRun* runs, int count) {
    for (int i = 0; i < count; ++i) {
      const int page = (first + runs[i].first) / kv.page_tokens;
      std::copy_n(kv.key_scales(page) + runs[i].slot, runs[i].count, keys_ + runs[i].first);
      std::copy_n(kv.value_scales(page) + runs[i].slot, runs[i].count, values_ + runs[i].first);
    }
  }
  HWY_INLINE void scale_scores(float* scores, int count) const { scale(scores, keys_, count); }
  HWY_INLINE void scale_weights(float* weights, int count) const { scale(weights, values_, count); }

private:
  HWY_INLINE static void scale(float* numbers, const float* scales, int count) {
    for (int j = 0; j < count; j += 16)
      store(mul(load(numbers + j), load(scales + j)), numbers + j);
  }

  float keys_[key_block] = {};
  float values_[key_block] = {};
};

/// The keys that the queries of a row read, the cap of their scores, and the queries' sinks.
struct Sight {
  int first;
  int end;
  float soft_cap;
  const float* sinks; ///< Null: none.
};

template <class Read, int Q>
HWY_NOINLINE void attend_queries(float* out, const float* scaled, const Sight& sight,
                                 const KvHead& kv, float* probabilities, std::byte* gathered) {
  const bool fits = kv.page_tokens % 16 == 0;
  Queries s{scaled, out, probabilities, kv.head_dim, fits ? kv.page_tokens : key_block};
  Softmax softmax[Q];
  for (int i = 0; i < Q; ++i)
    softmax[i] = Softmax::begin(sight.sinks ? sight.sinks + i : nullptr);
  std::fill_n(out, Q * kv.head_dim, 0.0f);
  KeyRun runs[key_block];
  BlockScales scales;
  // The first vector is aligned in the page, so it may begin before the first key that is seen.
  int first = sight.first - sight.first % (fits ? 16 : 2);
  for (int end = 0; first < sight.end; first = end) {
    end = std::min((first / key_block + 1) * key_block, sight.end);
    const int count = end - first;
    const int hidden = std::max(sight.first - first, 0);
    const int pages = runs_of_block(kv, first, count, runs);
    KeyRun copied{gathered, nullptr, 0, 0, count};
    if (!fits)
      gather_keys<Read>(kv, runs, pages, gathered);
    const KeyRun* const key_runs = fits ? runs : &copied;
    for (int r = 0; r < (fits ? pages : 1); ++r) {
      const KeyRun& run = key_runs[r];
      int j = 0;
      for (; j + 16 * chunks_together <= run.count; j += 16 * chunks_together)
        scores<Read, Q, chunks_together>(s, run.keys, run.slot + j, run.first + j);
      for (; j < run.count; j += 16)
        scores<Read, Q, 1>(s, run.keys, run.slot + j, run.first + j);
    }
    if constexpr (has_scales<Read>)
      scales.read(kv, first, runs, pages);
    for (int i = 0; i < Q; ++i) {
      float* weights = probabilities + i * key_block;
      const int whole = (count + 15) / 16 * 16;
      if constexpr (has_scales<Read>)
        scales.scale_scores(weights, whole);
      const V16 factor =
          splat(weigh(softmax[i], weights, hidden, count, whole, sight.soft_cap, AsItIs()));
      if constexpr (has_scales<Read>)
        scales.scale_weights(weights, whole);
      for (int d = 0; d < kv.head_dim; d += 16)
        store(mul(load(out + i * kv.head_dim + d), factor), out + i * kv.head_dim + d);
    }
    const int unread = hidden / 2 * 2;
    runs[0].slot += unread;
    runs[0].first += unread;
    runs[0].count -= unread;
    int d = 0;
    for (; d + 16 * chunks_together <= kv.head_dim; d += 16 * chunks_together)
      weighted_values<Read, Q, chunks_together>(s, runs, pages, hidden, d);
    for (; d < kv.head_dim; d += 16)
      weighted_values<Read, Q, 1>(s, runs, pages, hidden, d);
  }
  for (int i = 0; i < Q; ++i) {
    const V16 factor = splat(1 / softmax[i].total);
    for (int d = 0; d < kv.head_dim; d += 16)
      store(mul(load(out + i * kv.head_dim + d), factor), out + i * kv.head_dim + d);
  }
}

template <class Read, int Q = queries_together>
HWY_INLINE void attend_up_to(int queries, float* out, const float* scaled, const Sight& sight,
                             const KvHead& kv, float* probabilities, std::byte* gathered) {
  if constexpr (Q > 1) {
    if (queries < Q)
      return attend_up_to<Read, Q - 1>(queries, out, scaled, sight, kv, probabilities, gathered);
  }
  attend_queries<Read, Q>(out, scaled, sight, kv, probabilities, gathered);
}

/// Computes the heads of one row. scratch: scaled queries, probabilities and gathered keys.
HWY_INLINE void attend_row(float* out, const float* q, int heads, const AttentionOptions& options,
                           int position, const KvHead& kv, float* scratch) {
  Sight sight{options.first_seen(position), position + 1, options.soft_cap, nullptr};
  const int dim = kv.head_dim;
  float* probabilities = scratch + queries_together * dim;
  auto* gathered = reinterpret_cast<std::byte*>(probabilities + queries_together * key_block);
  for (int h = 0; h < heads;) {
    const int together = std::min(queries_together, heads - h);
    sight.sinks = options.from_head(h).sinks;
    for (int i = 0; i < together * dim; i += 16)
      store(mul(load(q + h * dim + i), splat(options.scale)), scratch + i);
    const auto attend_by = [&](auto read) INLINED {
      attend_up_to<decltype(read)>(together, out + h * dim, scratch, sight, kv, probabilities,
                                   gathered);
    };
    switch (kv.type) {
    case KvType::f32: attend_by(ReadF32()); break;
    case KvType::bf16: attend_by(ReadBf16()); break;
    case KvType::int8: attend_by(ReadInt8()); break;
    }
    h += together;
  }
}

} // namespace

void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
            const AttentionOptions& options, const KvHead& kv, Scratch& scratch) {
  if (kv.head_dim % 16 != 0)
    return scalar_kernels().attend(out, q, positions, options, kv, scratch);
  const auto width = std::size_t(kv.head_dim);
  const std::size_t floats = queries_together * (width + key_block) + width * key_block;
  auto* memory = reinterpret_cast<float*>(scratch.at_least(floats * sizeof(float)));
  for (int r = 0; r < out.rows; ++r)
    attend_row(out.row(r), q.row(r), out.cols / kv.head_dim, options, positions[std::size_t(r)], kv,
               memory);
}

float weigh_block(Softmax& softmax, float* scores, int begin, int end,
                  const AttentionOptions& options) {
  for (int j = 0; j < key_block; j += 16)
    store(mul(load(scores + j), splat(options.scale)), scores + j);
  return weigh(softmax, scores, begin, end, key_block, options.soft_cap, RoundedBf16());
}

#endif // HWY_SCALAR
} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
