// The CPU's kernel families behind one interface, chosen at run time. A kernel does one rank's
// share on one thread, and knows nothing of teams and barriers (see operations.cpp).
//
// Every family guarantees batch invariance: a result depends on its own row only, bit for bit. A
// sum runs in one order, fixed by the family: a product's over the inputs from 0 on, a softmax's
// over blocks of key_block positions counted from 0 (the first is cut where a window begins). So
// the division of the work, the other rows and the page size do not change a bit.
#pragma once

#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/weight.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu::cpu {

/// Number of rows in a block of staged rows (see Kernels::stage).
inline constexpr int row_block = 16;
/// Positions per step of a running softmax.
inline constexpr int key_block = 64;

/// One kv head of one layer in a sequence's pages. A head's block in a page is, for bf16, keys
/// [head_dim / 2][slot][2] and values [slot / 2][head_dim][2]; for f32 and int8, keys
/// [head_dim][slot] and values [slot][head_dim]: scores need a vector of keys, sums a vector of
/// values.
struct KvHead {
  const KvPool* pool = nullptr;
  std::span<const std::uint32_t> pages;
  std::size_t key_offset = 0; // bytes from a page's start to the head's keys
  std::size_t value_offset = 0;
  int page_tokens = 0; // even
  int head_dim = 0;    // even
  KvType type = KvType::bf16;

  std::byte* keys(int page) const { return pool->page(pages[std::size_t(page)]) + key_offset; }
  std::byte* values(int page) const { return pool->page(pages[std::size_t(page)]) + value_offset; }
  /// Return the scales of keys and values of int8, [slot].
  float* key_scales(int page) const { return behind_codes(keys(page)); }
  float* value_scales(int page) const { return behind_codes(values(page)); }

private:
  float* behind_codes(std::byte* block) const {
    return reinterpret_cast<float*>(block + page_tokens * head_dim);
  }
};

class Kernels {
public:
  virtual ~Kernels() = default;
  virtual const char* name() const = 0;
  /// Runs the family's fastest product instruction for bf16 weights `rounds` times, on registers
  /// alone, and returns the number of multiply-adds, as the peak to measure against.
  virtual double multiply_adds(int rounds) const = 0;
  /// Same as Device::faster_in_int8.
  virtual bool faster_in_int8() const { return false; }

  /// Returns the bytes that `rows` staged inputs of a product with `w` take.
  virtual std::size_t staged_bytes(int rows, const PackedWeight& w) const = 0;
  /// Writes rows [first, last) of `in` in the form that `linear` reads: padded, and rounded to bf16
  /// if PackedWeight::rounds_rows. staged: the whole memory, 64-byte aligned; first: a multiple of
  /// row_block.
  virtual void stage(std::byte* staged, Tensor in, const PackedWeight& w, int first,
                     int last) const = 0;
  /// Sets out[r][o] = staged[r] * w[o] (or += with `add`) for all rows of out and the outputs of
  /// the run's tiles.
  virtual void linear(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add, Scratch& scratch) const = 0;

  /// Computes an RMS norm. out, in, weight: [cols]; may be in place.
  virtual void rms_norm(float* out, const float* in, const float* weight, int cols,
                        float epsilon) const = 0;
  /// Computes a layer norm. out, in, weight, bias: [cols]; may be in place.
  virtual void layer_norm(float* out, const float* in, const float* weight, const float* bias,
                          int cols, float epsilon) const = 0;
  /// Rotates pairs (i, i + half) of one head in place. cos, sin: [half]
  virtual void rotate(float* head, const float* cos, const float* sin, int half) const = 0;
  /// Computes attention of one sequence's rows at `positions` (ascending) over what each of them
  /// sees. out, q: [rows, heads * head_dim], of some heads that share `kv`; the sinks are theirs.
  virtual void attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
                      const AttentionOptions& options, const KvHead& kv,
                      Scratch& scratch) const = 0;
  /// Gates up[i] by gate[i] (Gating).
  virtual void gate(float* out, const float* gate, const float* up, int n,
                    const Gating& gating) const = 0;
  /// Sets out[i] = activation(in[i]), not of clamped_silu; may be in place.
  virtual void activate(float* out, const float* in, int n, Activation activation) const = 0;
  /// Sets x[i] = cap * tanh(x[i] / cap).
  virtual void soft_cap(float* x, int n, float cap) const = 0;
  /// Advances the state of a value head by a row (Recurrence). state: [key_dim, value_dim]; value:
  /// [value_dim], overwritten.
  virtual void advance_delta(float* state, const float* key, int key_dim, float* value,
                             int value_dim, float decay, float rate) const = 0;
  /// Sets state = decay state + key change^T; change: [value_dim].
  virtual void advance_sum(float* state, const float* key, int key_dim, const float* change,
                           int value_dim, float decay) const = 0;
  /// Sets out = state^T query.
  virtual void read_state(float* out, int value_dim, const float* state, const float* query,
                          int key_dim) const = 0;
};

/// Returns families that this machine can run, the fastest first; the last is the scalar oracle.
std::vector<const Kernels*> available_kernels();

/// Returns the fastest, or the one that the environment variable PACELINE_CPU names.
Result<const Kernels*> choose_kernels();

const Kernels& scalar_kernels();

/// Store one head's key and value at `position`: plain copies, the same for every family.
void store_key(const KvHead& kv, int position, const float* key);
void store_value(const KvHead& kv, int position, const float* value);

} // namespace paceline::gpu::cpu
