// Launch functions of the CUDA kernels, one or two for each operation of gpu/operations.hpp. They
// take plain structs of device pointers and sizes, launch to a stream or into a recording, and
// return only whether that succeeded. All pointers name device memory (or pinned memory that the
// device sees) unless "host" is said, which must live until the work has run. Tensors of
// gpu/tensor.hpp are passed unchanged. Nothing here allocates, waits, or keeps a state between
// calls.
//
// Batch invariance: a row's result is a function of that row, of the context it sees and of the
// model's shapes. The inputs of a product are cut into contiguous parts (PackedLayout::chains),
// each is summed from its first input on, and the parts are added in order; attention sums chunks
// of attention_chunk positions counted from 0, adds attention_group of those in order, and then
// those sums. Neither depends on what else is in the call.
#pragma once

#include "gpu/cuda/recording.hpp"
#include "gpu/operations.hpp"
#include "gpu/tensor.hpp"
#include "paceline/weight_format.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu::cuda::kernels {

// ---- Weights ----------------------------------------------------------------------------------

/// Rows of a weight (outputs) that are packed together.
inline constexpr int tile_outputs = 16;
/// Inputs of one matrix instruction.
inline constexpr int step_inputs = 16;
/// Rows of activations of one matrix instruction.
inline constexpr int tile_rows = 8;

/// The layout of a weight in device memory: tiles of 16 outputs, the last filled up with zeros.
/// bf16: a tile is [inputs / 16][lane][8], the registers of the matrix instruction's operand A as
/// each of 32 lanes holds them; inputs are padded with zeros to a multiple of 16.
/// f32, f16: a tile is [16][inputs], rows padded with zeros to a multiple of 16 inputs.
/// Microscaling and scaled codes (gguf_blocks.hpp): a tile is spans of 64 inputs, laid out as in
/// span_layout.hpp.
struct PackedLayout {
  WeightFormat format = WeightFormat::bf16;
  int outputs = 0;
  int inputs = 0;
  std::size_t tile_bytes = 0;

  static PackedLayout of(WeightFormat format, int outputs, int inputs);

  PACELINE_HOST_DEVICE int tiles() const { return (outputs + tile_outputs - 1) / tile_outputs; }
  PACELINE_HOST_DEVICE int padded_inputs() const {
    return (inputs + step_inputs - 1) / step_inputs * step_inputs;
  }
  /// Returns the number of parts into which a product's inputs are cut, each of which has a sum:
  /// more where tiles alone are too few to occupy a GPU. It depends on the shape only.
  PACELINE_HOST_DEVICE int chains() const {
    if (tiles() <= 128 && padded_inputs() >= 128 * step_inputs)
      return 16;
    return tiles() <= 512 && padded_inputs() >= 64 * step_inputs ? 8 : 4;
  }
  std::size_t bytes() const { return std::size_t(tiles()) * tile_bytes; }
  /// Returns whether a product's rows are rounded to bf16, and staged (StagedRows).
  bool rounds_rows() const { return format >= WeightFormat::bf16; }
  bool operator==(const PackedLayout&) const = default;
};

/// Writes, on the host, tiles [first_tile, last_tile) of the matrix that consists of `parts`, one
/// below the other. image: host memory for these tiles, (last_tile - first_tile) * tile_bytes, of
/// which every byte is written. Biases are not part of it. May run on several threads at once for
/// different tiles.
void pack(const PackedLayout& layout, std::span<const HostMatrix> parts, int first_tile,
          int last_tile, std::byte* image);

/// A weight in device memory. data: 256-byte aligned.
struct PackedWeight {
  PackedLayout layout;
  const std::byte* data = nullptr;
  const float* bias = nullptr; ///< [outputs], or null.

  bool operator==(const PackedWeight&) const = default;
};

/// Sets out[r] = scale * table[tokens[r]]; out: [rows, inputs]; tokens: [rows]. Unknown ids: zeros.
cudaError_t embed(const Queue& queue, Tensor out, const PackedWeight& table,
                  const std::int32_t* tokens, float scale);
/// Does the same with row r's token at places[r]; places: [rows].
cudaError_t embed_drawn(const Queue& queue, Tensor out, const PackedWeight& table,
                        const std::int32_t* const* places, float scale);
/// Sets out[r] += table[ids[r]]; ids: [rows]. Unknown ids add nothing.
cudaError_t embed_add(const Queue& queue, Tensor out, const PackedWeight& table,
                      const std::int32_t* ids);

// ---- Rows that meet a product of bf16 ---------------------------------------------------------

/// Rows in the form that `linear` reads if they are rounded to bf16 (rounds_rows): in blocks of 8
/// rows, [rows / 8][cols / 16][lane][4], columns padded with zeros. The operation that makes rows
/// (rms_norm, gate, attention) writes this form along with them if asked to, which saves a launch;
/// `stage` does it for any tensor. 16-byte aligned.
struct StagedRows {
  std::uint16_t* data = nullptr; ///< Null: not wanted.

  bool operator==(const StagedRows&) const = default;
};
std::size_t staged_bytes(int rows, int cols);
cudaError_t stage(const Queue& queue, StagedRows out, Tensor in);

/// Sets out = in * w^T + bias, or += with `add`. in: [rows, inputs]; out: [rows, outputs] (stride
/// may exceed the columns). staged: the rows of `in`, if they are rounded (ignored otherwise).
cudaError_t linear(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                   const PackedWeight& w, bool add);

/// Returns whether `linear_gate` multiplies such a weight and so many rows: few ones, since blocks
/// of more outputs are faster with many.
bool joins_gate(const PackedLayout& layout, int rows);
/// Sets out[r, i] to what a product's column i makes, as a gate, of its column out.cols + i,
/// without leaving these: the numbers of `linear` and `gate`. staged: the rows of `in`; staged_out:
/// gets the result; another one.
cudaError_t linear_gate(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                        const PackedWeight& w, const Gating& gating, StagedRows staged_out);

// ---- Mixtures of experts ----------------------------------------------------------------------

/// Chooses experts (Operations::route). scores: [routing.rows, routing.experts], overwritten; bias:
/// [routing.experts], null: none.
cudaError_t route(const Queue& queue, const Routing& routing, Tensor scores, const float* bias,
                  const RouterOptions& options);
/// Sets out = in * w_e^T + bias by experts (Operations::expert_linear). staged: the rows of `in`,
/// in the same order, if they are rounded. w: all experts' outputs, of which each has out.cols, or
/// those from `first_output` on, whole tiles.
cudaError_t expert_linear(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                          RoutedRows order, const PackedWeight& w, int first_output,
                          const Routing& routing);
/// Sets out to the weighted sums of picks, or += with `add` (Operations::combine).
cudaError_t combine(const Queue& queue, Tensor out, Tensor in, const Routing& routing, bool add);
/// Sets logits of what picks say, and -infinity of all others (Operations::spread).
cudaError_t spread(const Queue& queue, Tensor out, Tensor in, const Routing& routing);
/// Multiplies by sigmoids (Operations::scale_by_sigmoid). scores: [x.rows, x.cols], or [x.rows, 1].
cudaError_t scale_by_sigmoid(const Queue& queue, Tensor x, Tensor scores);

// ---- Recurrent layers -------------------------------------------------------------------------

/// One recurrent layer's part of all states.
struct States {
  float* first = nullptr; ///< That of state 0.
  StateLayout layout;
  std::size_t stride = 0; ///< Floats from one state to the next.

  PACELINE_HOST_DEVICE float* of(std::uint32_t state) const {
    return first + std::size_t(state) * stride;
  }
  bool operator==(const States&) const = default;
};
/// Advances states, and computes what rows give (Operations::recurrence). runs: [count], in device
/// memory; snapshots: whether any of them leaves one.
cudaError_t recurrence(const Queue& queue, Tensor out, Tensor in, Tensor rates,
                       const Recurrence& rule, const StateRun* runs, int count,
                       const States& states, bool snapshots);
/// Computes short convolutions (Operations::short_convolution), but leaves `in` as it is. most:
/// rows of the longest run.
cudaError_t short_convolution(const Queue& queue, Tensor out, Tensor in,
                              const ShortConvolution& convolution, const StateRun* runs, int count,
                              int most, const States& states, bool snapshots);
/// Normalises rows part by part, and gates them (Operations::gated_rms_norm).
cudaError_t gated_rms_norm(const Queue& queue, Tensor x, Tensor gates, const GatedNorm& norm);

// ---- Plain matrices, for products that are not ours -------------------------------------------

/// Returns the columns of a plain matrix of rows or weights: those of its source, and zeros up to a
/// multiple of step_inputs.
PACELINE_HOST_DEVICE inline int plain_cols(int cols) {
  return (cols + step_inputs - 1) / step_inputs * step_inputs;
}
/// Returns the bytes of a weight as a plain matrix.
inline std::size_t plain_bytes(const PackedLayout& layout) {
  return std::size_t(layout.tiles() * tile_outputs) * std::size_t(plain_cols(layout.inputs)) *
         sizeof(std::uint16_t);
}
/// Writes the weight, which is not f32 or f16, rounded to bf16. out:
/// [tiles * tile_outputs, plain_cols(inputs)], bf16, row-major, plain_bytes() in all.
cudaError_t unpack(const Queue& queue, std::byte* out, const PackedWeight& w);
/// Writes `in`, rounded. out: [rows, plain_cols(in.cols)], bf16, row-major.
cudaError_t round_rows(const Queue& queue, std::byte* out, Tensor in);
/// Sets *differ to 1 if two tensors of the same size differ in any bit.
cudaError_t compare(const Queue& queue, std::int32_t* differ, Tensor a, Tensor b);

// ---- Elementwise work -------------------------------------------------------------------------

/// Sets out[r] = in[r] / sqrt(mean(in[r]^2) + epsilon) * weight. weight: [cols]. May be in place.
/// staged: gets the result.
cudaError_t rms_norm(const Queue& queue, Tensor out, Tensor in, const float* weight, float epsilon,
                     StagedRows staged = {});
/// Adds the same to out, and multiplies the sum by `scale`. Not in place.
cudaError_t rms_norm_add(const Queue& queue, Tensor out, Tensor in, const float* weight,
                         float epsilon, float scale);
/// Computes layer norms (Operations::layer_norm). weight, bias: [cols]. May be in place.
cudaError_t layer_norm(const Queue& queue, Tensor out, Tensor in, const float* weight,
                       const float* bias, float epsilon, StagedRows staged);
/// Gates in[r, n + i] by in[r, i] (Gating); in: [rows, 2 n], out: [rows, n].
cudaError_t gate(const Queue& queue, Tensor out, Tensor in, const Gating& gating,
                 StagedRows staged = {});
/// Sets out = activation(in), not of clamped_silu. May be in place.
cudaError_t activate(const Queue& queue, Tensor out, Tensor in, Activation activation,
                     StagedRows staged);
/// Sets x = cap * tanh(x / cap).
cudaError_t soft_cap(const Queue& queue, Tensor x, float cap);
/// Sets out = parts[0] + parts[1] + ..., each number in this order, or += the sum with `add`.
/// parts: [count][out.rows][out.cols].
cudaError_t sum(const Queue& queue, Tensor out, const float* parts, int count, bool add);
/// Sets out[i] = in[rows[i]]; rows: [out.rows].
cudaError_t gather(const Queue& queue, Tensor out, Tensor in, const std::int32_t* rows);
/// Sets out[rows[i]] = in[i]; rows: [in.rows].
cudaError_t scatter(const Queue& queue, Tensor out, Tensor in, const std::int32_t* rows);
/// Sets out[r, i] = in[r, columns[i]], -infinity if columns[i] is negative; columns: [out.cols].
cudaError_t gather_columns(const Queue& queue, Tensor out, Tensor in, const float* columns);

// ---- The paged cache --------------------------------------------------------------------------

/// Dimensions of the largest head that attention supports; head_dim is a multiple of head_dim_step.
inline constexpr int head_dim_max = 256;
inline constexpr int head_dim_step = 8;

/// One layer of a pool. A head's block of a page is keys [slot][head_dim] and values, for f32 and
/// int8 [slot][head_dim], for bf16 [slot / 2][head_dim][2], whose pairs are words of a matrix
/// instruction.
struct Cache {
  std::byte* pages = nullptr; ///< The pool's first page; 256-byte aligned.
  std::size_t page_bytes = 0;
  std::size_t key_offset = 0;   ///< Bytes from a page's start to the keys of head 0.
  std::size_t value_offset = 0; ///< Bytes from a page's start to the values of head 0.
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
  KvType type = KvType::bf16;

  static Cache of(std::byte* pages, std::size_t page_bytes, const KvLayout& layout, int layer) {
    return {
        pages,           page_bytes,      layout.offset(layer, 0, 0), layout.offset(layer, 1, 0),
        layout.kv_heads, layout.head_dim, layout.page_tokens,         layout.type};
  }
  /// Returns the bytes of a head's block, scales included.
  PACELINE_HOST_DEVICE std::size_t block_bytes() const {
    return std::size_t(page_tokens) * kv_bytes(type, head_dim);
  }
  /// Returns the bytes of the codes of int8 in a head's block, behind which are their scales.
  PACELINE_HOST_DEVICE int code_bytes() const { return page_tokens * head_dim; }
  bool operator==(const Cache&) const = default;
};

/// Consecutive rows of one sequence that attention takes together.
struct RowTile {
  std::int32_t first = 0; ///< First row.
  std::int32_t count = 0;
};

/// Cuts a batch into tiles, on the host. heads, kv_heads: the model's. sequence: [rows].
std::vector<RowTile> tile_rows_of(std::span<const std::int32_t> sequence, int heads, int kv_heads);

/// A RowMap in device memory. Page p of row r's sequence has the number
/// pages[first_page[sequence[r]] + p].
struct Rows {
  int count = 0;
  const std::int32_t* sequence = nullptr;   ///< [count]
  const std::int32_t* position = nullptr;   ///< [count]
  const std::int32_t* first_page = nullptr; ///< [sequences]
  const std::uint32_t* pages = nullptr;     ///< All tables, one after another.
  const RowMap::Copy* copies = nullptr;     ///< [copy_count]
  int copy_count = 0;
  const RowTile* tiles = nullptr; ///< [tile_count], from tile_rows_of.
  int tile_count = 0;
  int context = 0; ///< Highest position + 1, or more.

  bool operator==(const Rows&) const = default;
};

/// Rotates, and stores to the cache. cos, sin: tables of RopeTable; columns may be 0. Norm weights
/// are device pointers.
cudaError_t rope_store(const Queue& queue, Tensor qkv, int heads, const RopeTable& rope,
                       const HeadNorms& norms, const Rows& rows, const Cache& cache);

/// Number of positions that are summed together, counted from 0, and of such chunks that are joined
/// before they are joined to what comes before them.
inline constexpr int attention_chunk = 64;
inline constexpr int attention_group = 16;

/// Returns the bytes of `workspace` for `attention` with at most these rows, tiles and context.
std::size_t attention_workspace(int rows, int tiles, int heads, const Cache& cache, int context);
/// Computes attention. out: [rows, heads * head_dim]; queries are the first columns of qkv. staged:
/// gets the result; only if out.cols is a multiple of 16.
cudaError_t attention(const Queue& queue, Tensor out, Tensor qkv, int heads,
                      const AttentionOptions& options, const Rows& rows, const Cache& cache,
                      std::byte* workspace, StagedRows staged = {});

/// Copies pages. copies: [count]. No page is both read and written.
cudaError_t copy_pages(const Queue& queue, std::byte* pages, std::size_t page_bytes,
                       const PageCopy* copies, int count);

// ---- Sampling ---------------------------------------------------------------------------------

/// Tokens of the longest row; longer rows fail.
inline constexpr int vocabulary_max = 1 << 19;

struct Bias {
  std::int32_t token = 0;
  float value = 0;
};

/// sampling::Warping with its biases in device memory.
struct Warping {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  const Bias* biases = nullptr; ///< The request's biases in order, then the tokens held back.
  int bias_count = 0;
  const std::uint32_t* allowed = nullptr; ///< One bit per token; null: all are allowed.
};

/// sampling::History, with the tokens judged before the row as a part of their own.
struct History {
  const std::int32_t* committed = nullptr;
  int committed_count = 0;
  int prompt_tokens = 0;
  const std::int32_t* prefix = nullptr;
  int prefix_count = 0;
  const std::int32_t* judged = nullptr;
  int judged_count = 0;
};

/// A row of logits that is to become a distribution.
struct WarpRow {
  const float* logits = nullptr; ///< [vocabulary]
  int vocabulary = 0;
  Warping warping;
  History history;
  float* probabilities = nullptr; ///< [vocabulary]; result.
  float* adjusted = nullptr; ///< [vocabulary], scratch: with biases, masks or penalties, else null.
  std::uint32_t* counts = nullptr; ///< [vocabulary], scratch: with penalties, else null.
};

// Each row has a block. vocabulary: that of all rows, which decides how many threads a block has.
// 0: unknown, the most threads.

/// Only warps (for tests, and for the distribution itself). failed: [count], 1 for rows that were
/// no distribution.
cudaError_t warp(const Queue& queue, const WarpRow* rows, int count, std::int32_t* failed,
                 int vocabulary = 0);

/// The noise of one answer's draws: sampling::Noise.
struct Noise {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
};

enum class Rule : std::int32_t { rejection, coupled, match };

struct ProposeResult {
  std::int32_t token = 0;
  std::int32_t failed = 0; ///< The row was not a distribution; nothing else holds.
  std::int32_t guess_count = 0;
  std::int32_t guesses[sampling::limits::guesses_max] = {};
  float margin = 0;
};
struct ProposeRow {
  WarpRow row; ///< The row, whose probabilities are q.
  Rule rule = Rule::rejection;
  Noise noise;
  std::uint32_t position = 0;
  std::uint32_t attempt = 0;
  std::int32_t guesses_wanted = 0;
  float* q = nullptr; ///< Gets the row for others to read, then zeros up to q_size; null: nowhere.
                      ///< May be the row's own probabilities; is only written.
  int q_size = 0;     ///< Length of `q`, at least the row's.
};
/// Draws tokens. rows, results: [count]
cudaError_t propose(const Queue& queue, const ProposeRow* rows, int count, ProposeResult* results,
                    int vocabulary = 0);

struct Logprob {
  float token = 0; ///< The token's own log-probability.
  std::int32_t top_count = 0;
  std::int32_t top_tokens[sampling::limits::top_logprobs_max] = {};
  float top[sampling::limits::top_logprobs_max] = {};
};

/// One row of a VerifyTask; it is judged whatever the results of the rows before it are.
struct VerifyRow {
  WarpRow row;
  Rule rule = Rule::rejection;
  Noise noise;
  std::uint32_t position = 0;
  std::int32_t judges = 0; ///< 0: no token is judged, one is drawn (`follow`).
  std::int32_t token = 0;
  const float* q = nullptr;       ///< [vocabulary] if `rejection` judges, else null.
  std::int32_t top_logprobs = -1; ///< -1: no log-probabilities wanted.
  std::int32_t raw_logprobs = 1;  ///< 0: those of the warped distribution.
  std::int32_t check_draw = 0;    ///< Check that `token` is q's own draw (sampling::is_draw).
  std::uint32_t attempt = 0;      ///< Attempt of that draw.
};
struct VerifyResult {
  std::int32_t failed = 0;
  std::int32_t accepted = 0;
  std::int32_t token = 0;             ///< The judged one if accepted, else the one in its place.
  std::int32_t inconsistent_draw = 0; ///< Result of check_draw, valid even if the row failed.
  Logprob logprob;
};
/// Judges rows. rows, results: [count]. The host reads a task's results in the order of its rows up
/// to the first that failed or was not accepted; later ones mean nothing.
cudaError_t verify(const Queue& queue, const VerifyRow* rows, int count, VerifyResult* results,
                   int vocabulary = 0);

struct ScoreRow {
  const float* logits = nullptr; ///< [vocabulary]
  int vocabulary = 0;
  std::int32_t token = 0;
  std::int32_t top = 0;
};
/// Computes log-probabilities. rows, results: [count]
cudaError_t score(const Queue& queue, const ScoreRow* rows, int count, Logprob* results,
                  int vocabulary = 0);

} // namespace paceline::gpu::cuda::kernels
