// Portable kernels: one source, compiled for each vector instruction set and chosen at run time by
// Google Highway.
#include "gpu/cpu/highway.hpp"

#include "gpu/cpu/highway_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/highway.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include "gpu/cpu/highway-inl.hpp"
#include "gpu/cpu/int8_rows.hpp"

#include <cctype>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string>

HWY_BEFORE_NAMESPACE();
namespace paceline::gpu::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR // The oracle serves as well without vectors.

const Kernels* best_kernels() {
  return &scalar_kernels();
}
const Kernels* named_kernels() {
  return &scalar_kernels();
}
WeighBlock* best_weigh_block() {
  return nullptr;
}
DecodeBlocks* best_decode_blocks() {
  return nullptr;
}
EncodeBlocks* best_encode_blocks() {
  return nullptr;
}

#else

/// Returns x * sigmoid(argument).
HWY_INLINE V gated(const V& x, const V& argument) {
  // exp's argument is bounded, since past 88 the quotient vanishes anyway.
  const V e = hn::Exp(D(), hn::Min(hn::Neg(argument), hn::Set(D(), 88.0f)));
  return hn::Div(x, hn::Add(e, hn::Set(D(), 1.0f)));
}

/// Returns x, at most `most`; NaN stays NaN.
HWY_INLINE V at_most(const V& x, const V& most) {
  return hn::IfThenElse(hn::Gt(x, most), most, x);
}

/// Returns x * Phi(x), of the normal distribution's function. Its tail erfc(z) / 2, z = |x| /
/// sqrt(2), is exp(-z^2) times a polynomial in 1 / (1 + 0.4 z) that was fitted for z up to 9.4,
/// where erfc is 0 in f32, with a relative error of 6e-8.
HWY_INLINE V gelu(const V& x) {
  constexpr float factors[] = {0.2256244898f,  0.2266056304f,  0.200750804f,
                               0.1977553456f,  0.06968969687f, 0.1023088958f,
                               0.07162894961f, -0.1344179671f, 0.04005421162f};
  const V z = hn::Mul(hn::Abs(x), hn::Set(D(), 1 / std::numbers::sqrt2_v<float>));
  const V one = hn::Set(D(), 1.0f);
  const V t = hn::Div(one, hn::MulAdd(z, hn::Set(D(), 0.4f), one));
  V polynomial = hn::Zero(D());
  for (int i = int(std::size(factors)); i-- > 0;)
    polynomial = hn::MulAdd(polynomial, t, hn::Set(D(), factors[i]));
  const V e = hn::Exp(D(), hn::Neg(hn::Min(hn::Mul(z, z), hn::Set(D(), 88.0f))));
  const V half = hn::Mul(hn::Abs(x), hn::Set(D(), 0.5f));
  const V tail = hn::Mul(hn::Mul(half, hn::Mul(polynomial, t)), e);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Neg(tail), hn::Sub(x, tail));
}

/// Returns max(x, 0); NaN stays NaN.
HWY_INLINE V positive(const V& x) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Zero(D()), x);
}

/// Calls f(the function of an activation other than clamped_silu).
template <class F>
HWY_INLINE void with_activation(Activation activation, const F& f) {
  switch (activation) {
  case Activation::silu: return f([](const V& x) INLINED { return gated(x, x); });
  case Activation::gelu_tanh: // (1 + tanh(y)) / 2 is sigmoid(2 y).
    return f([](const V& x) INLINED {
      const float twice = 2 * std::sqrt(2 / std::numbers::pi_v<float>);
      const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(D(), 0.044715f), hn::Set(D(), 1.0f));
      return gated(x, hn::Mul(hn::Mul(x, hn::Set(D(), twice)), cubic));
    });
  case Activation::gelu: return f([](const V& x) INLINED { return gelu(x); });
  case Activation::relu: return f([](const V& x) INLINED { return positive(x); });
  case Activation::relu_squared:
    return f([](const V& x) INLINED { return hn::Mul(positive(x), positive(x)); });
  case Activation::clamped_silu: break;
  }
}

/// Computes out[i] = make(gate[i], up[i]).
template <class F>
HWY_INLINE void gate_by(float* out, const float* gate, const float* up, int n, const F& make) {
  for (int i = 0; i < n; i += 16) {
    const V16 g = load_n(gate + i, n - i);
    const V16 u = load_n(up + i, n - i);
    store_n(each([&](int part) INLINED { return make(g.part[part], u.part[part]); }), out + i,
            n - i);
  }
}

HWY_INLINE void gate_clamped(float* out, const float* gate, const float* up, int n,
                             const Gating& gating) {
  gate_by(out, gate, up, n, [&](const V& x, const V& u) INLINED {
    const V limit = hn::Set(D(), gating.limit);
    const V bounded = at_most(x, limit);
    const V value = hn::Neg(at_most(hn::Neg(at_most(u, limit)), limit));
    return hn::Mul(gated(bounded, hn::Mul(bounded, hn::Set(D(), gating.alpha))),
                   hn::Add(value, hn::Set(D(), 1.0f)));
  });
}

/// Returns the first numbers, and zeros behind them.
HWY_INLINE V16 first_n(const V16& x, int count) {
  if (HWY_LIKELY(count >= 16))
    return x;
  return each([&](int part) INLINED {
    const int own = std::clamp(count - part * lanes, 0, lanes);
    return hn::IfThenElseZero(hn::FirstN(D(), std::size_t(own)), x.part[part]);
  });
}

/// Calls f(first column, blocks of 16 columns, a constant) for groups of up to 64 columns, which
/// are enough sums to hide the latency.
template <class F>
HWY_INLINE void by_columns(int columns, const F& f) {
  for (int first = 0; first < columns; first += 64)
    with_constant<4>(divide_up(columns - first, 16),
                     [&](auto blocks) INLINED { f(first, blocks); });
}

/// Sums factor[i] * (scale * state[i][j]) over i, for `blocks` blocks of columns from `first` on.
template <int blocks>
HWY_INLINE void sum_columns(V16 (&sums)[blocks], const float* state, int columns, int first,
                            const float* factors, int rows, float scale) {
  repeat<blocks>([&](auto b) INLINED { sums[b] = splat(0); });
  for (int i = 0; i < rows; ++i) {
    const float* row = state + i * std::ptrdiff_t(columns) + first;
    const V16 factor = splat(factors[i]);
    repeat<blocks>([&](auto b) INLINED {
      const V16 x = load_n(row + 16 * b, columns - first - 16 * b);
      sums[b] = mul_add(mul(x, splat(scale)), factor, sums[b]);
    });
  }
}

/// Sets state[i][j] = decay * state[i][j] + factors[i] * change[j] in the same columns.
template <int blocks>
HWY_INLINE void add_columns(float* state, int columns, int first, const float* factors, int rows,
                            const V16 (&change)[blocks], float decay) {
  for (int i = 0; i < rows; ++i) {
    float* const row = state + i * std::ptrdiff_t(columns) + first;
    repeat<blocks>([&](auto b) INLINED {
      const int count = columns - first - 16 * b;
      store_n(mul_add(change[b], splat(factors[i]), mul(load_n(row + 16 * b, count), splat(decay))),
              row + 16 * b, count);
    });
  }
}

class HighwayKernels final : public Kernels {
public:
  explicit HighwayKernels(std::string name) : name_(std::move(name)) {}
  const char* name() const override { return name_.c_str(); }

  double multiply_adds(int rounds) const override {
    constexpr int sums = lanes == 8 ? 12 : 16; // Enough to hide the latency, few enough to fit.
    V sum[sums];
    volatile float one = 1;
    const V x = hn::Set(D(), one);
    const V y = hn::Set(D(), one * 0x1p-20f);
    repeat<sums>([&](auto i) INLINED { sum[i] = hn::Set(D(), one * float(i)); });
    for (int round = 0; round < rounds; ++round)
      repeat<sums>([&](auto i) INLINED { sum[i] = hn::MulAdd(sum[i], x, y); });
    repeat<sums - 1>([&](auto i) INLINED { sum[0] = hn::Add(sum[0], sum[i + 1]); });
    one = hn::GetLane(sum[0]);
    return double(rounds) * sums * lanes;
  }
  bool faster_in_int8() const override { return HWY_TARGET == HWY_AVX2; }

  std::size_t staged_bytes(int rows, const PackedWeight& w) const override {
    if (w.integers())
      return int8_staged_bytes(rows, w);
    const int sums = w.has_least() ? w.parts() : 0;
    return std::size_t(rows) * std::size_t(w.padded_inputs() + sums) * sizeof(float);
  }

  void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
             int last) const override {
    if (w.integers())
      return stage_int8(staged, in, w, first, last);
    const int padded = w.padded_inputs();
    const bool round = w.rounds_rows();
    for (int r = first; r < last; ++r) {
      float* to = reinterpret_cast<float*>(staged) + std::size_t(r) * std::size_t(padded);
      for (int i = 0; i < padded; i += 16) {
        const V16 x = load_n(in.row(r) + i, std::clamp(in.cols - i, 0, 16));
        store_n(round ? round_bf16(x) : x, to + i, padded - i);
      }
      if (w.has_least())
        sum_parts(to, w.codes().part, w.parts(),
                  reinterpret_cast<float*>(staged) + in.rows * std::ptrdiff_t(padded) +
                      r * std::ptrdiff_t(w.parts()));
    }
  }

  void linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add,
              Scratch& scratch) const override {
    if (w.integers())
      return linear_int8_rows(out, staged, w, run, add);
    HWY_NAMESPACE::linear(out, reinterpret_cast<const float*>(staged), w, run, add, scratch);
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

  void layer_norm(float* out, const float* in, const float* weight, const float* bias, int cols,
                  float epsilon) const override {
    V16 total = splat(0);
    for (int i = 0; i < cols; i += 16)
      total = add(total, load_n(in + i, cols - i));
    const V16 negative_mean = splat(-sum(total) / float(cols));
    V16 squares = splat(0);
    for (int i = 0; i < cols; i += 16) {
      // What lies behind the row's end has no difference to the mean.
      const V16 x = first_n(add(load_n(in + i, cols - i), negative_mean), cols - i);
      squares = mul_add(x, x, squares);
    }
    const V16 factor = splat(1 / std::sqrt(sum(squares) / float(cols) + epsilon));
    for (int i = 0; i < cols; i += 16) {
      const V16 x = mul(add(load_n(in + i, cols - i), negative_mean), factor);
      store_n(mul_add(x, load_n(weight + i, cols - i), load_n(bias + i, cols - i)), out + i,
              cols - i);
    }
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

  void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv, Scratch& scratch) const override {
    HWY_NAMESPACE::attend(out, q, positions, options, kv, scratch);
  }

  void gate(float* out, const float* gate, const float* up, int n,
            const Gating& gating) const override {
    if (gating.activation == Activation::clamped_silu)
      return gate_clamped(out, gate, up, n, gating);
    with_activation(gating.activation, [&](const auto& f) INLINED {
      gate_by(out, gate, up, n, [&](const V& x, const V& u) INLINED { return hn::Mul(f(x), u); });
    });
  }

  void activate(float* out, const float* in, int n, Activation activation) const override {
    with_activation(activation, [&](const auto& f) INLINED {
      for (int i = 0; i < n; i += 16) {
        const V16 x = load_n(in + i, n - i);
        store_n(each([&](int part) INLINED { return f(x.part[part]); }), out + i, n - i);
      }
    });
  }

  void soft_cap(float* x, int n, float cap) const override {
    for (int i = 0; i < n; i += 16)
      store_n(soft_capped(load_n(x + i, n - i), cap), x + i, n - i);
  }

  void advance_delta(float* state, const float* key, int key_dim, float* value, int value_dim,
                     float decay, float rate) const override {
    by_columns(value_dim, [&](int first, auto blocks) INLINED {
      V16 change[blocks];
      sum_columns(change, state, value_dim, first, key, key_dim, decay);
      repeat<blocks>([&](auto b) INLINED {
        const V16 v = load_n(value + first + 16 * b, value_dim - first - 16 * b);
        change[b] = mul(mul_add(change[b], splat(-1), v), splat(rate));
      });
      add_columns(state, value_dim, first, key, key_dim, change, decay);
    });
  }

  void advance_sum(float* state, const float* key, int key_dim, const float* values, int value_dim,
                   float decay) const override {
    by_columns(value_dim, [&](int first, auto blocks) INLINED {
      V16 change[blocks];
      repeat<blocks>([&](auto b) INLINED {
        change[b] = load_n(values + first + 16 * b, value_dim - first - 16 * b);
      });
      add_columns(state, value_dim, first, key, key_dim, change, decay);
    });
  }

  void read_state(float* out, int value_dim, const float* state, const float* query,
                  int key_dim) const override {
    by_columns(value_dim, [&](int first, auto blocks) INLINED {
      V16 sums[blocks];
      sum_columns(sums, state, value_dim, first, query, key_dim, 1);
      repeat<blocks>([&](auto b) INLINED {
        store_n(sums[b], out + first + 16 * b, value_dim - first - 16 * b);
      });
    });
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

WeighBlock* best_weigh_block() {
  return &weigh_block;
}
DecodeBlocks* best_decode_blocks() {
  return &decode_blocks;
}
EncodeBlocks* best_encode_blocks() {
  return &encode_blocks;
}

#endif // HWY_SCALAR

} // namespace paceline::gpu::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::gpu::cpu {

HWY_EXPORT(best_kernels);
HWY_EXPORT(named_kernels);
HWY_EXPORT(best_weigh_block);
HWY_EXPORT(best_decode_blocks);
HWY_EXPORT(best_encode_blocks);

WeighBlock* highway_weigh_block() {
  return HWY_DYNAMIC_DISPATCH(best_weigh_block)();
}

DecodeBlocks* highway_decode_blocks() {
  return HWY_DYNAMIC_DISPATCH(best_decode_blocks)();
}

EncodeBlocks* highway_encode_blocks() {
  return HWY_DYNAMIC_DISPATCH(best_encode_blocks)();
}

const Kernels& highway_kernels() {
  return *HWY_DYNAMIC_DISPATCH(best_kernels)();
}

// Reads the tables directly, so that the dispatch of the rest of the process does not change.
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
