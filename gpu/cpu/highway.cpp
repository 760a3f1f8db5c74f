// Portable kernels: one source, compiled for each vector instruction set and dispatched at run
// time by Google Highway. All arithmetic is on blocks of 16 floats, however wide the registers
// are, so that every machine with fused multiply-add sums in the same order.
#include "gpu/cpu/highway.hpp"

#include "gpu/cpu/kernels.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#undef HWY_DISABLED_TARGETS // Rare or old ones; the next lesser target serves them.
#define HWY_DISABLED_TARGETS                                                                       \
  (HWY_AVX3_DL | HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#undef INLINED
#define INLINED HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR // Without vectors the oracle is as good as any.

const Kernels* best_kernels() {
  return &scalar_kernels();
}
const Kernels* named_kernels() {
  return &scalar_kernels();
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int lanes = int(hn::MaxLanes(D()));
constexpr int parts = 16 / lanes;

/// Registers for sums, the rest being for their operands (AVX2 has 16, the others 32), and rows
/// of a product that share what is read of the weights.
constexpr int accumulators = lanes == 8 ? 8 : 16;
constexpr int rows_together = lanes == 16 ? 8 : 4;

/// f(0), f(1) ... f(N - 1), each with a constant of its own: arrays that are indexed so live in
/// registers. Lambdas for it are marked INLINED.
template <int N, int I = 0, class F>
HWY_INLINE void repeat(const F& f) {
  if constexpr (I < N) {
    f(std::integral_constant<int, I>());
    repeat<N, I + 1>(f);
  }
}

/// 16 floats.
struct V16 {
  V part[parts];
};

template <class F>
HWY_INLINE V16 each(const F& f) {
  V16 result;
  repeat<parts>([&](auto i) INLINED { result.part[i] = f(i); });
  return result;
}
HWY_INLINE V16 splat(float x) {
  return each([&](int) INLINED { return hn::Set(D(), x); });
}
HWY_INLINE V16 load(const float* from) {
  return each([&](int i) INLINED { return hn::LoadU(D(), from + i * lanes); });
}
HWY_INLINE void store(const V16& x, float* to) {
  for (int i = 0; i < parts; ++i)
    hn::StoreU(x.part[i], D(), to + i * lanes);
}
HWY_INLINE V16 load_n(const float* from, int count) {
  if (HWY_LIKELY(count >= 16))
    return load(from);
  float padded[16] = {};
  std::copy_n(from, count, padded);
  return load(padded);
}
HWY_INLINE void store_n(const V16& x, float* to, int count) {
  if (HWY_LIKELY(count >= 16))
    return store(x, to);
  float padded[16];
  store(x, padded);
  std::copy_n(padded, count, to);
}
HWY_INLINE V16 add(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Add(a.part[i], b.part[i]); });
}
HWY_INLINE V16 mul(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Mul(a.part[i], b.part[i]); });
}
/// a * b + c
HWY_INLINE V16 mul_add(const V16& a, const V16& b, const V16& c) {
  return each([&](int i) INLINED { return hn::MulAdd(a.part[i], b.part[i], c.part[i]); });
}
HWY_INLINE V16 max(const V16& a, const V16& b) {
  return each([&](int i) INLINED { return hn::Max(a.part[i], b.part[i]); });
}
HWY_INLINE V16 exp(const V16& x) {
  return each([&](int i) INLINED { return hn::Exp(D(), x.part[i]); });
}
template <class Tag, class Vec, class Op>
HWY_INLINE auto fold_to_four(Tag, const Vec& x, const Op& op) {
  if constexpr (hn::MaxLanes(Tag()) == 4) {
    return x;
  } else {
    const hn::Half<Tag> half;
    return fold_to_four(half, op(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), op);
  }
}
template <class Op>
HWY_INLINE float fold_vector(V x, const Op& op) {
  const auto four = fold_to_four(D(), x, op);
  const auto two = op(four, hn::Shuffle1032(four));
  return hn::GetLane(op(two, hn::Shuffle2301(two)));
}

/// Folds 16 lanes in halves, whatever the register's width: (i, i + 8), (i, i + 4), ...
template <class Op>
HWY_INLINE float fold(V16 x, const Op& op) {
  for (int width = parts / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      x.part[i] = op(x.part[i], x.part[i + width]);
  return fold_vector(x.part[0], op);
}
HWY_INLINE float sum(const V16& x) {
  return fold(x, [](const auto& a, const auto& b) INLINED { return hn::Add(a, b); });
}
HWY_INLINE float highest(const V16& x) {
  return fold(x, [](const auto& a, const auto& b) INLINED { return hn::Max(a, b); });
}

/// Readers of two rows of 16 elements that belong to neighbouring inputs, keys or dimensions.
/// stride: elements between the rows, where they are apart.
struct ReadBf16 { // Interleaved: a 32-bit lane holds one element of each row.
  static constexpr std::size_t bytes = 2;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return each([&](int i) INLINED { return hn::BitCast(D(), hn::ShiftLeft<16>(raw(from, i))); });
  }
  HWY_INLINE static V16 odd(const std::byte* from, int) {
    return each([&](int i) INLINED {
      const auto mask = hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000u);
      return hn::BitCast(D(), hn::And(raw(from, i), mask));
    });
  }
  HWY_INLINE static hn::Vec<hn::RebindToUnsigned<D>> raw(const std::byte* from, int i) {
    return hn::LoadU(hn::RebindToUnsigned<D>(),
                     reinterpret_cast<const std::uint32_t*>(from) + i * lanes);
  }
};
struct ReadF32 {
  static constexpr std::size_t bytes = 4;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return load(reinterpret_cast<const float*>(from));
  }
  HWY_INLINE static V16 odd(const std::byte* from, int stride) {
    return load(reinterpret_cast<const float*>(from) + stride);
  }
};
struct ReadF16 {
  static constexpr std::size_t bytes = 2;
  HWY_INLINE static V16 even(const std::byte* from, int) {
    return each([&](int i) INLINED {
      const hn::Rebind<hwy::float16_t, D> half;
      const auto* at = reinterpret_cast<const hwy::float16_t*>(from) + i * lanes;
      return hn::PromoteTo(D(), hn::LoadU(half, at));
    });
  }
  HWY_INLINE static V16 odd(const std::byte* from, int stride) {
    return even(from + 2 * stride, stride);
  }
};

// ---- Products -----------------------------------------------------------------------------------

/// How far ahead of the reading a tile's bytes are asked for.
constexpr std::size_t prefetch_bytes = 1024;

struct Product {
  Tensor out;
  const float* rows; // [rows, padded inputs]
  const PackedWeight& w;
  bool add;
};

/// Rows x Tiles blocks of 16 outputs, in registers.
template <class Read, int Rows, int Tiles>
HWY_NOINLINE void product_block(const Product& p, int row, int tile) {
  constexpr std::size_t step = 2 * tile_outputs * Read::bytes; // Of two inputs.
  const int inputs = p.w.padded_inputs();
  const float* x = p.rows + std::size_t(row) * std::size_t(inputs);
  const std::byte* w = p.w.tile(tile);
  const std::size_t tile_bytes = p.w.tile_bytes();
  V16 acc[Rows][Tiles];
  repeat<Rows>([&](auto r)
                   INLINED { repeat<Tiles>([&](auto t) INLINED { acc[r][t] = splat(0); }); });
  for (int k = 0; k < inputs; k += 2, w += step) {
    V16 weights[Tiles];
    const auto accumulate = [&](int input) INLINED {
      repeat<Rows>([&](auto r) INLINED {
        const V16 in = splat(x[std::size_t(r) * std::size_t(inputs) + std::size_t(input)]);
        repeat<Tiles>([&](auto t) INLINED { acc[r][t] = mul_add(weights[t], in, acc[r][t]); });
      });
    };
    repeat<Tiles>([&](auto t) INLINED {
      const std::byte* at = w + std::size_t(t) * tile_bytes;
      for (std::size_t line = 0; line < step; line += 64)
        hwy::Prefetch(at + prefetch_bytes + line);
      weights[t] = Read::even(at, tile_outputs);
    });
    accumulate(k);
    repeat<Tiles>([&](auto t) INLINED {
      weights[t] = Read::odd(w + std::size_t(t) * tile_bytes, tile_outputs);
    });
    accumulate(k + 1);
  }
  repeat<Rows>([&](auto r) INLINED {
    repeat<Tiles>([&](auto t) INLINED {
      const int first = (tile + t) * tile_outputs;
      const int count = std::min(tile_outputs, p.w.outputs() - first);
      float* out = p.out.row(row + r) + first;
      store_n(p.add ? add(load_n(out, count), acc[r][t]) : acc[r][t], out, count);
    });
  });
}

template <int Rows>
constexpr int tiles_together = std::clamp(accumulators / (Rows * parts), 1, 4);

/// All rows against tiles [tile, tile + Tiles) while those are in the cache: blocks of Rows, and of
/// halves of that for the rest.
template <class Read, int Tiles, int Rows>
HWY_INLINE void product_rows(const Product& p, int row, int tile) {
  for (; row + Rows <= p.out.rows; row += Rows)
    product_block<Read, Rows, Tiles>(p, row, tile);
  if constexpr (Rows > 1)
    product_rows<Read, Tiles, Rows / 2>(p, row, tile);
}

/// The more rows, the fewer tiles at a time: the registers hold so many sums.
template <class Read, int Rows = rows_together>
HWY_INLINE void product(const Product& p, int first, int last) {
  if constexpr (Rows > 1) {
    if (p.out.rows < Rows)
      return product<Read, Rows / 2>(p, first, last);
  }
  constexpr int together = tiles_together<Rows>;
  for (; first + together <= last; first += together)
    product_rows<Read, together, Rows>(p, 0, first);
  for (; first < last; ++first)
    product_rows<Read, 1, Rows>(p, 0, first);
}

/// To bf16 and back, to nearest even; NaN stays NaN.
HWY_INLINE V16 round_bf16(const V16& x) {
  return each([&](int i) INLINED {
    const hn::RebindToUnsigned<D> u;
    const auto bits = hn::BitCast(u, x.part[i]);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1u));
    const auto rounded =
        hn::And(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7FFFu))), hn::Set(u, 0xFFFF0000u));
    return hn::IfThenElse(hn::Eq(x.part[i], x.part[i]), hn::BitCast(D(), rounded), x.part[i]);
  });
}

// ---- Attention ----------------------------------------------------------------------------------

/// Queries that read keys and values together, and what they do of them at a time.
constexpr int queries_together = parts == 1 ? 4 : 3;
constexpr int chunks_together = parts == 1 ? 4 : parts == 2 ? 2 : 1;

/// A pair of bf16 or one f32: the bytes from one slot of keys, or dimension of values, to the next.
constexpr std::size_t lane_bytes = 4;

/// The part of one page that a block of keys covers.
struct KeyRun {
  const std::byte* keys; // of the page's slot 0
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

/// Scores of Q queries against Chunks * 16 keys from `slot` on.
template <class Read, int Q, int Chunks>
HWY_INLINE void scores(const Queries& s, const std::byte* keys, int slot, int at) {
  const std::size_t row = std::size_t(s.page_tokens) * 2 * Read::bytes;
  V16 acc[Q][Chunks];
  repeat<Q>([&](auto i) INLINED { repeat<Chunks>([&](auto c) INLINED { acc[i][c] = splat(0); }); });
  const std::byte* from = keys + std::size_t(slot) * lane_bytes;
  for (int d = 0; d < s.dim; d += 2, from += row) {
    V16 rows[Chunks];
    const auto accumulate = [&](int at_d) INLINED {
      repeat<Q>([&](auto i) INLINED {
        const V16 q = splat(s.q[i * s.dim + at_d]);
        repeat<Chunks>([&](auto c) INLINED { acc[i][c] = mul_add(rows[c], q, acc[i][c]); });
      });
    };
    repeat<Chunks>([&](auto c) INLINED {
      rows[c] = Read::even(from + std::size_t(c) * 16 * lane_bytes, s.page_tokens);
    });
    accumulate(d);
    repeat<Chunks>([&](auto c) INLINED {
      rows[c] = Read::odd(from + std::size_t(c) * 16 * lane_bytes, s.page_tokens);
    });
    accumulate(d + 1);
  }
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>(
        [&](auto c) INLINED { store(acc[i][c], s.probabilities + i * key_block + at + 16 * c); });
  });
}

/// out += probabilities * values, for Chunks * 16 dimensions from `d` on.
template <class Read, int Q, int Chunks>
HWY_INLINE void weighted_values(const Queries& s, const KeyRun* runs, int count, int d) {
  const std::size_t row = std::size_t(s.dim) * 2 * Read::bytes;
  V16 acc[Q][Chunks];
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>([&](auto c) INLINED { acc[i][c] = load(s.out + i * s.dim + d + 16 * c); });
  });
  for (const KeyRun* run = runs; run != runs + count; ++run) {
    const std::byte* from =
        run->values + std::size_t(run->slot / 2) * row + std::size_t(d) * lane_bytes;
    V16 rows[Chunks];
    const auto accumulate = [&](int key) INLINED {
      repeat<Q>([&](auto i) INLINED {
        const V16 p = splat(s.probabilities[i * key_block + key]);
        repeat<Chunks>([&](auto c) INLINED { acc[i][c] = mul_add(rows[c], p, acc[i][c]); });
      });
    };
    for (int j = 0; j < run->count; j += 2, from += row) {
      repeat<Chunks>([&](auto c) INLINED {
        rows[c] = Read::even(from + std::size_t(c) * 16 * lane_bytes, s.dim);
      });
      accumulate(run->first + j);
      if (j + 1 == run->count)
        break; // What lies in the slot after the last key is anybody's.
      repeat<Chunks>([&](auto c) INLINED {
        rows[c] = Read::odd(from + std::size_t(c) * 16 * lane_bytes, s.dim);
      });
      accumulate(run->first + j + 1);
    }
  }
  repeat<Q>([&](auto i) INLINED {
    repeat<Chunks>([&](auto c) INLINED { store(acc[i][c], s.out + i * s.dim + d + 16 * c); });
  });
}

/// Running softmax (Milakov and Gimelshein 2018) of one query.
struct Softmax {
  float highest = -std::numeric_limits<float>::infinity();
  float total = 0;

  /// Scores of a block become weights; returns what earlier sums must be multiplied with.
  HWY_INLINE float block(float* row, int keys) {
    const int padded = (keys + 15) / 16 * 16;
    std::fill(row + keys, row + padded, -std::numeric_limits<float>::infinity());
    V16 top = load(row);
    for (int j = 16; j < padded; j += 16)
      top = cpu::HWY_NAMESPACE::max(top, load(row + j));
    const float now = std::max(highest, cpu::HWY_NAMESPACE::highest(top));
    const V16 shift = splat(-now);
    V16 sums = splat(0);
    for (int j = 0; j < padded; j += 16) {
      const V16 weight = exp(add(load(row + j), shift));
      store(weight, row + j);
      sums = add(sums, weight);
    }
    const float factor = hn::GetLane(hn::Exp(D(), hn::Set(D(), highest - now)));
    total = total * factor + sum(sums);
    highest = now;
    return factor;
  }
};

/// The pages that keys [first, first + count) lie in.
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

/// Keys of pages that vectors do not fit, as if they lay in one page of key_block slots.
void gather_keys(const KvHead& kv, const KeyRun* runs, int count, std::byte* to) {
  const bool pairs = kv.dtype == DType::bf16; // A row is a pair of dimensions, a slot 4 bytes.
  for (int row = 0; row < (pairs ? kv.head_dim / 2 : kv.head_dim); ++row)
    for (int i = 0; i < count; ++i)
      std::memcpy(to + std::size_t(row * key_block + runs[i].first) * 4,
                  runs[i].keys + std::size_t(row * kv.page_tokens + runs[i].slot) * 4,
                  std::size_t(runs[i].count) * 4);
}

template <class Read, int Q>
HWY_NOINLINE void attend_queries(float* out, const float* scaled, int keys, const KvHead& kv,
                                 float* probabilities, std::byte* gathered) {
  const bool fits = kv.page_tokens % 16 == 0;
  Queries s{scaled, out, probabilities, kv.head_dim, fits ? kv.page_tokens : key_block};
  Softmax softmax[Q];
  std::fill_n(out, Q * kv.head_dim, 0.0f);
  KeyRun runs[key_block];
  for (int first = 0; first < keys; first += key_block) {
    const int count = std::min(key_block, keys - first);
    const int pages = runs_of_block(kv, first, count, runs);
    KeyRun whole{gathered, nullptr, 0, 0, count};
    if (!fits)
      gather_keys(kv, runs, pages, gathered);
    const KeyRun* const key_runs = fits ? runs : &whole;
    for (int r = 0; r < (fits ? pages : 1); ++r) {
      const KeyRun& run = key_runs[r];
      int j = 0;
      for (; j + 16 * chunks_together <= run.count; j += 16 * chunks_together)
        scores<Read, Q, chunks_together>(s, run.keys, run.slot + j, run.first + j);
      for (; j < run.count; j += 16)
        scores<Read, Q, 1>(s, run.keys, run.slot + j, run.first + j);
    }
    for (int i = 0; i < Q; ++i) {
      const V16 factor = splat(softmax[i].block(probabilities + i * key_block, count));
      for (int d = 0; d < kv.head_dim; d += 16)
        store(mul(load(out + i * kv.head_dim + d), factor), out + i * kv.head_dim + d);
    }
    int d = 0;
    for (; d + 16 * chunks_together <= kv.head_dim; d += 16 * chunks_together)
      weighted_values<Read, Q, chunks_together>(s, runs, pages, d);
    for (; d < kv.head_dim; d += 16)
      weighted_values<Read, Q, 1>(s, runs, pages, d);
  }
  for (int i = 0; i < Q; ++i) {
    const V16 factor = splat(1 / softmax[i].total);
    for (int d = 0; d < kv.head_dim; d += 16)
      store(mul(load(out + i * kv.head_dim + d), factor), out + i * kv.head_dim + d);
  }
}

template <class Read, int Q = queries_together>
HWY_INLINE void attend_up_to(int queries, float* out, const float* scaled, int keys,
                             const KvHead& kv, float* probabilities, std::byte* gathered) {
  if constexpr (Q > 1) {
    if (queries < Q)
      return attend_up_to<Read, Q - 1>(queries, out, scaled, keys, kv, probabilities, gathered);
  }
  attend_queries<Read, Q>(out, scaled, keys, kv, probabilities, gathered);
}

// ---- The family ---------------------------------------------------------------------------------

class HighwayKernels final : public Kernels {
public:
  explicit HighwayKernels(std::string name) : name_(std::move(name)) {}
  const char* name() const override { return name_.c_str(); }

  std::size_t staged_bytes(int rows, const PackedWeight& w) const override {
    return std::size_t(rows) * std::size_t(w.padded_inputs()) * sizeof(float);
  }

  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
             int last) const override {
    const int padded = w.padded_inputs();
    const bool round = w.dtype() == DType::bf16;
    for (int r = first; r < last; ++r) {
      float* to = reinterpret_cast<float*>(staged) + std::size_t(r) * std::size_t(padded);
      for (int i = 0; i < padded; i += 16) {
        const V16 x = load_n(in.row(r) + i, std::clamp(in.cols - i, 0, 16));
        store_n(round ? round_bf16(x) : x, to + i, padded - i);
      }
    }
  }

  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, int first, int last,
              bool add) const override {
    const Product p{out, reinterpret_cast<const float*>(staged), w, add};
    switch (w.dtype()) {
    case DType::f32: return product<ReadF32>(p, first, last);
    case DType::f16: return product<ReadF16>(p, first, last);
    case DType::bf16: return product<ReadBf16>(p, first, last);
    }
  }

  void rms_norm(float* out, const float* in, const float* weight, int cols,
                float epsilon) const override {
    V16 squares = splat(0);
    for (int i = 0; i < cols; i += 16) {
      const V16 x = load_n(in + i, cols - i);
      squares = mul_add(x, x, squares);
    }
    const V16 factor = splat(1 / std::sqrt(sum(squares) / float(cols) + epsilon));
    for (int i = 0; i < cols; i += 16)
      store_n(mul(mul(load_n(in + i, cols - i), factor), load_n(weight + i, cols - i)), out + i,
              cols - i);
  }

  void rotate(float* head, const float* cos, const float* sin, int half) const override {
    for (int i = 0; i < half; i += 16) {
      const int count = half - i;
      const V16 a = load_n(head + i, count);
      const V16 b = load_n(head + half + i, count);
      const V16 c = load_n(cos + i, count);
      const V16 s = load_n(sin + i, count);
      store_n(mul_add(a, c, mul(mul(b, s), splat(-1))), head + i, count);
      store_n(mul_add(b, c, mul(a, s)), head + half + i, count);
    }
  }

  void attend(float* out, const float* q, int heads, float scale, int keys, const KvHead& kv,
              std::vector<float>& scratch) const override {
    if (kv.head_dim % 16 != 0)
      return scalar_kernels().attend(out, q, heads, scale, keys, kv, scratch);
    const int dim = kv.head_dim;
    scratch.resize(std::size_t(queries_together * (dim + key_block) + dim * key_block));
    float* scaled = scratch.data();
    float* probabilities = scaled + queries_together * dim;
    auto* gathered = reinterpret_cast<std::byte*>(probabilities + queries_together * key_block);
    for (int h = 0; h < heads;) {
      const int together = std::min(queries_together, heads - h);
      for (int i = 0; i < together * dim; i += 16)
        store(mul(load(q + h * dim + i), splat(scale)), scaled + i);
      if (kv.dtype == DType::bf16)
        attend_up_to<ReadBf16>(together, out + h * dim, scaled, keys, kv, probabilities, gathered);
      else
        attend_up_to<ReadF32>(together, out + h * dim, scaled, keys, kv, probabilities, gathered);
      h += together;
    }
  }

  void swiglu(float* out, const float* gate, const float* up, int n) const override {
    for (int i = 0; i < n; i += 16) {
      const V16 g = load_n(gate + i, n - i);
      const V16 u = load_n(up + i, n - i);
      store_n(each([&](int part) INLINED {
                const V x = g.part[part];
                // exp's argument is bounded: past 88 the quotient vanishes anyway.
                const V e = hn::Exp(D(), hn::Min(hn::Neg(x), hn::Set(D(), 88.0f)));
                return hn::Mul(hn::Div(x, hn::Add(e, hn::Set(D(), 1.0f))), u.part[part]);
              }),
              out + i, n - i);
    }
  }

private:
  const std::string name_;
};

const Kernels* best_kernels() {
  static const HighwayKernels kernels("highway");
  return &kernels;
}

const Kernels* named_kernels() {
  static const HighwayKernels kernels([] {
    std::string name = std::string("highway-") + hwy::TargetName(HWY_TARGET);
    for (char& c : name)
      c = char(std::tolower(static_cast<unsigned char>(c)));
    return name;
  }());
  return &kernels;
}

#endif

} // namespace HWY_NAMESPACE
} // namespace paceline::gpu::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::gpu::cpu {

HWY_EXPORT(best_kernels);
HWY_EXPORT(named_kernels);

const Kernels& highway_kernels() {
  return *HWY_DYNAMIC_DISPATCH(best_kernels)();
}

// Chooses by hand, and leaves alone what the process dispatches to elsewhere.
std::vector<const Kernels*> highway_variants() {
  std::vector<const Kernels*> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
    static_cast<void>(target);
    all.push_back(HWY_STATIC_DISPATCH(named_kernels)());
#else
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    all.push_back(HWY_DISPATCH_TABLE(named_kernels)[chosen.GetIndex()]());
#endif
  }
  return all;
}

} // namespace paceline::gpu::cpu
#endif
