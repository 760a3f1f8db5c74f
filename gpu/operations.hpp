// The operations a model is written with. A lane's work runs as one program on every thread of its
// team at once: each rank calls the same operations in the same order with the same arguments, an
// operation divides its work among the ranks, and when it returns on one rank its result is
// complete on all (CPU: it ends with a barrier; CUDA: one rank, stream order).
//
// Tensors, rows of q and pages are device memory: only operations read and write them. Results of
// tasks are there when the piece has completed (Step::complete), and until then whatever a call was
// given (tokens, row maps, tasks and all that they point to) stays as it is.
//
// Batch invariance (promise 2a): a row's result has the same bits whatever other rows are in the
// call, whatever the ranks, and whatever the page size. Each row is reduced in one order, in
// blocks counted from position 0.
#pragma once

#include "base/host_device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/tensor.hpp"
#include "sampling/guess.hpp"
#include "sampling/rules.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// Rows of Operations::linear_fast come in whole chunks of so many.
inline constexpr int fast_chunk = 64;

/// How the transformer lays out a page: [layer][key, value][kv head], each a block of
/// page_tokens x head_dim elements of `dtype` (f32 or bf16) in the order that the device's kernels
/// read best. page_tokens and head_dim are even.
struct KvLayout {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 16;
  DType dtype = DType::bf16;

  std::size_t token_bytes() const {
    return std::size_t(layers) * 2 * std::size_t(kv_heads) * std::size_t(head_dim) * size_of(dtype);
  }
  /// Bytes from the page's start to the block of (layer, key or value, head).
  std::size_t offset(int layer, int key_or_value, int head) const {
    const auto index =
        (std::size_t(layer) * 2 + std::size_t(key_or_value)) * std::size_t(kv_heads) +
        std::size_t(head);
    return index * std::size_t(page_tokens) * std::size_t(head_dim) * size_of(dtype);
  }
};

/// Where each row of a batch stands. Row r is the token at `position[r]` of a sequence whose page
/// numbers are `pages[sequence[r]]`. Rows of one sequence are consecutive and ascending. A page
/// that lies wholly before what its rows see (AttentionOptions::window) may be another's: none is
/// read.
struct RowMap {
  std::vector<std::int32_t> sequence;
  std::vector<std::int32_t> position;
  std::vector<std::span<const std::uint32_t>> pages;
  int rows() const { return int(position.size()); }
};

/// cos and sin of every (position, frequency): rows = positions, cols = half of the dimensions of a
/// head that are rotated, counted from its first. Empty: no dimension is.
struct RopeTable {
  Tensor cos;
  Tensor sin;

  bool operator==(const RopeTable&) const = default;
};

/// RMS norms of each query's and each key's own head_dim elements, before they are rotated
/// (Henry et al. 2020 as Qwen 3 does it). weights: [head_dim], f32; null: no norm.
struct HeadNorms {
  const float* query = nullptr;
  const float* key = nullptr;
  float epsilon = 0;

  bool operator==(const HeadNorms&) const = default;
};

/// How scores of queries and keys become weights of values.
struct AttentionOptions {
  float scale = 1;    ///< Of the scores.
  float soft_cap = 0; ///< Scores become soft_cap * tanh(score / soft_cap) (Gemma 2); 0: they stay.
  int window = 0;     ///< A row sees this many positions, its own the last; 0: all up to its own.

  /// The first position that the row at `position` sees.
  PACELINE_HOST_DEVICE int first_seen(int position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  bool operator==(const AttentionOptions&) const = default;
};

/// What a gated feed-forward multiplies with: x sigmoid(x), or GELU in its tanh form (Hendrycks and
/// Gimpel 2016).
enum class Activation { silu, gelu_tanh };

/// One layer's slice of a paged cache.
struct KvLayer {
  const KvPool* pool = nullptr;
  KvLayout layout;
  int layer = 0;
};

/// Page numbers.
struct PageCopy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// A row of draft logits to draw from.
struct ProposeTask {
  const float* logits = nullptr; ///< [vocabulary]
  int vocabulary = 0;            ///< Ids from here on are padding (p = q = 0).
  const sampling::Warping* warping = nullptr;
  sampling::History history;
  /// Where the history's last token, which `history` lacks, is found when the task runs: `place` of
  /// a task in the piece before this one (Step::prepare_behind); null: it lacks none.
  const TokenId* unseen = nullptr;
  sampling::Rule rule = sampling::Rule::rejection;
  sampling::Noise noise;
  std::uint32_t position = 0;
  std::uint32_t attempt = 0;
  float* q = nullptr; ///< [q_size], where the warped row is left; null: not wanted.
  int q_size = 0;     ///< Of `q`; ids from `vocabulary` on get 0. Less than it: nothing is added.
  bool guesses_wanted = false;
  TokenId token = 0; ///< Result.
  /// Where the piece behind this one finds the token: known once `run` has returned; null: in
  /// `token`.
  const TokenId* place = nullptr;
  bool failed = false;       ///< Result: the row was not a distribution (NaN).
  sampling::Guesses guesses; ///< Result, if wanted.
};

/// A run of target rows to judge drafted tokens with. Row i judges tokens[i]; when all of them are
/// accepted and `follow` is set, the row after them draws one more token.
struct VerifyTask {
  const float* logits = nullptr; ///< [tokens.size() + 1, stride], f32
  int stride = 0;
  int vocabulary = 0;
  const sampling::Warping* warping = nullptr;
  sampling::History history; ///< Of row 0; tokens judged before a row are added by the operation.
  sampling::Rule rule = sampling::Rule::rejection;
  sampling::Noise noise;
  std::uint32_t position = 0; ///< Of tokens[0].
  std::span<const TokenId> tokens;
  std::span<const float* const> q; ///< One row per token; empty unless rule is `rejection`.
  bool follow = true;
  /// Repeat the draft's draw of every judged token from the q row shown (`rejection` only).
  bool check_draws = false;
  std::uint32_t attempt = 0; ///< Of those draws.
  int top_logprobs = -1;     ///< -1: no log-probabilities wanted.
  LogprobsMode logprobs_mode = LogprobsMode::raw;

  int accepted = 0;                   ///< Result: leading tokens accepted.
  bool ended = false;                 ///< Result: `next` holds a token (a rejection, or `follow`).
  TokenId next = 0;                   ///< Result: the token after the accepted ones.
  bool failed = false;                ///< Result: a row was not a distribution (NaN).
  bool inconsistent_draw = false;     ///< Result: a judged token was not its row's draw.
  std::vector<TokenLogprob> logprobs; ///< Result: one per accepted token, and one for `next`.
};

/// Log-probabilities of given tokens (prompt scoring): row i against tokens[i].
struct ScoreTask {
  const float* logits = nullptr; ///< [tokens.size(), stride], f32
  int stride = 0;
  int vocabulary = 0;
  std::span<const TokenId> tokens;
  int top = 0;
  std::vector<TokenLogprob> logprobs; ///< Result.
};

/// The shards of a model that one team works on, one after the other.
struct ShardRange {
  int first = 0;
  int count = 1;
  int end() const { return first + count; }
};

class Operations {
public:
  virtual ~Operations() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// All ranks meet. Operations end with one; only code of a step's own needs this.
  virtual void barrier() = 0;

  /// In a step that runs in shards (Step::in_shards): those of this team. The teams of all shards
  /// are at work at once, and all operations but `meet` are a team's own.
  virtual ShardRange shards() const { return {}; }
  /// All ranks of all teams meet: behind it each reads what the others have written before. Where
  /// one of them fails it throws on the rest, so that nobody waits for who does not come.
  virtual void meet();
  /// out = parts[0] + parts[1] + ..., each number in this order; with `add`, out += all of that. A
  /// part: [rows, cols], which all shards' lanes reach where they can; read it behind `meet`.
  virtual void sum(Tensor out, std::span<const Tensor> parts, bool add);

  /// out[r] = scale * table[tokens[r]]; out: [rows, inputs of table]. An id outside the table gives
  /// zeros.
  virtual void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
                     float scale) = 0;
  /// The same of tokens that the piece before this one draws: row r's is at places[r]
  /// (ProposeTask::place).
  virtual void embed_drawn(Tensor out, const Weight& table, std::span<const TokenId* const> places,
                           float scale);
  /// out[r] = in[r] / sqrt(mean(in[r]^2) + epsilon) * weight; weight: [cols], f32. May be in place.
  virtual void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) = 0;
  /// out[r] += rms_norm(in[r]) (a norm behind a sublayer, before its residual).
  virtual void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon) = 0;
  /// out = in * w^T + bias; in: [rows, inputs], out: [rows, outputs] (stride may exceed the
  /// columns).
  virtual void linear(Tensor out, Tensor in, const Weight& w) = 0;
  /// out += in * w^T + bias (residual).
  virtual void linear_add(Tensor out, Tensor in, const Weight& w) = 0;
  /// The same, or += with `add`, by whatever is fastest for many rows, once
  /// Device::prepare_fast_products has seen the weight's shape. Its bits are others than linear's.
  /// They depend on a row alone all the same, as long as rows come in whole chunks of fast_chunk.
  virtual void linear_fast(Tensor out, Tensor in, const Weight& w, bool add);
  /// Normalises and rotates queries and keys in place (pairs (i, i + rope's columns), Su et al.
  /// 2021 as Llama does it), then writes keys and values to the cache. qkv: [rows, (heads + 2
  /// kv_heads) * head_dim], queries first, then keys, then values.
  virtual void rope_store(Tensor qkv, int heads, const RopeTable& rope, const HeadNorms& norms,
                          const RowMap& rows, const KvLayer& cache) = 0;
  /// Causal attention of each row over the positions it sees, through the page tables. Pages
  /// that no row of the call sees are not touched.
  /// out: [rows, heads * head_dim]; queries are the first columns of qkv.
  virtual void attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                         const RowMap& rows, const KvLayer& cache) = 0;
  /// out[r, i] = activation(in[r, i]) * in[r, n + i]; in: [rows, 2 n], out: [rows, n].
  virtual void gate(Tensor out, Tensor in, Activation activation) = 0;
  /// x = cap * tanh(x / cap), cap > 0.
  virtual void soft_cap(Tensor x, float cap) = 0;
  /// out[i] = in[rows[i]].
  virtual void gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) = 0;
  /// out[rows[i]] = in[i]; no row twice.
  virtual void scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) = 0;
  /// out[r, i] = in[r, columns[i]], -infinity where columns[i] is negative. columns: [out.cols],
  /// whole numbers as floats, in device memory (Device::upload).
  virtual void gather_columns(Tensor out, Tensor in, const float* columns) = 0;

  /// Copies whole pages of the cache, before anything that this pass writes.
  virtual void copy_pages(const KvPool& pool, std::span<const PageCopy> pages) = 0;

  virtual void propose(std::span<ProposeTask> tasks) = 0;
  virtual void verify(std::span<VerifyTask> tasks) = 0;
  virtual void score(std::span<ScoreTask> tasks) = 0;
};

} // namespace paceline::gpu
