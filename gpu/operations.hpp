// The operations that models are written with. A lane's work runs as one program on every thread of
// its team at once: each rank calls the same operations in the same order with the same arguments,
// and an operation divides its work among the ranks. When an operation returns on one rank, its
// result is complete on all (CPU: it ends with a barrier; CUDA: one rank, stream order).
//
// Tensors, rows of q and pages are device memory: only operations read and write them. Results of
// tasks are there when the piece has completed (Step::complete). Until then, the arguments of a
// call (tokens, row maps, tasks and all that they point to) must stay unchanged.
//
// Batch invariance (promise 2a): a row's result has the same bits whatever the other rows of the
// call, the number of ranks and the page size are. Each row is reduced in one order, in blocks
// counted from position 0.
#pragma once

#include "base/host_device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/kv_type.hpp"
#include "gpu/recurrence.hpp"
#include "gpu/routing.hpp"
#include "gpu/tensor.hpp"
#include "sampling/guess.hpp"
#include "sampling/rules.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// The number of rows of Operations::linear_fast is a multiple of this.
inline constexpr int fast_chunk = 64;

/// How the transformer lays out a page: [layer][key, value][kv head], each a block of page_tokens
/// keys or values of `type`, in the order that the device's kernels read best. Scales of int8 (f32,
/// [page_tokens]) come behind the block's codes. page_tokens and head_dim are even.
struct KvLayout {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 16;
  KvType type = KvType::bf16;
  std::size_t begin = 0; ///< Bytes of a page before these layers, which others of it have.

  std::size_t token_bytes() const {
    return std::size_t(layers) * 2 * std::size_t(kv_heads) * kv_bytes(type, head_dim);
  }
  /// Returns the bytes from the page's start to the block of (layer, key or value, head).
  std::size_t offset(int layer, int key_or_value, int head) const {
    const auto index =
        (std::size_t(layer) * 2 + std::size_t(key_or_value)) * std::size_t(kv_heads) +
        std::size_t(head);
    return begin + index * std::size_t(page_tokens) * kv_bytes(type, head_dim);
  }
};

/// The place of each row of a batch. Row r is the token at `position[r]` of a sequence whose page
/// numbers are `pages[sequence[r]]`. Rows of one sequence are consecutive and ascending; where
/// attention is all that is computed, several may have one position, up to which they see. A page
/// that lies wholly before what its rows see (AttentionOptions::window) is not read, so it may
/// belong to another sequence.
struct RowMap {
  /// A row whose keys and values lie in another sequence's pages besides, at the same position.
  struct Copy {
    std::int32_t row = 0;
    std::int32_t sequence = 0;
  };
  std::vector<std::int32_t> sequence;
  std::vector<std::int32_t> position;
  std::vector<std::span<const std::uint32_t>> pages;
  std::vector<Copy> copies; ///< By row.
  int rows() const { return int(position.size()); }
};

/// cos and sin of every (position, frequency): rows = positions, cols = half of the number of a
/// head's dimensions that are rotated, from its first on. Empty: no dimension is rotated.
struct RopeTable {
  Tensor cos;
  Tensor sin;

  bool operator==(const RopeTable&) const = default;
};

/// RMS norms of each query's, each key's and each value's own head_dim elements, applied before the
/// rotation (Henry et al. 2020, in the form of Qwen 3). weights: [head_dim], f32; null: no norm.
struct HeadNorms {
  const float* query = nullptr;
  const float* key = nullptr;
  float epsilon = 0;
  const float* value = nullptr;

  bool operator==(const HeadNorms&) const = default;
};

/// How scores of queries and keys become weights of values.
struct AttentionOptions {
  float scale = 1;    ///< Factor of the scores.
  float soft_cap = 0; ///< Scores become soft_cap * tanh(score / soft_cap) (Gemma 2); 0: unchanged.
  int window = 0;     ///< A row sees this many positions, its own the last; 0: all up to its own.
  /// [heads], f32, in device memory: a score of each head beside those of the positions, which has
  /// its part of the softmax, and no value (an attention sink, as in OpenAI's gpt-oss, 2025); null:
  /// there is none.
  const float* sinks = nullptr;

  /// Returns the first position that the row at `position` sees.
  PACELINE_HOST_DEVICE int first_seen(int position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  /// Returns the options of the heads from `head` on.
  AttentionOptions from_head(int head) const {
    AttentionOptions own = *this;
    own.sinks = sinks ? sinks + head : nullptr;
    return own;
  }
  bool operator==(const AttentionOptions&) const = default;
};

/// The activation of a feed-forward layer: x sigmoid(x), GELU in its tanh form (Hendrycks and
/// Gimpel 2016), x sigmoid(alpha x) with bounds (OpenAI's gpt-oss, 2025), GELU as it is defined,
/// max(x, 0), or the square of that (So et al. 2021, "Primer", section 3).
enum class Activation { silu, gelu_tanh, clamped_silu, gelu, relu, relu_squared };

/// How a gated feed-forward layer makes one number of a gate x and a value u: activation(x) u. With
/// clamped_silu it is min(x, limit) sigmoid(alpha min(x, limit)) (max(-limit, min(u, limit)) + 1).
struct Gating {
  Activation activation = Activation::silu;
  float alpha = 1; ///< This one and `limit`, above 0, are for clamped_silu.
  float limit = 1;

  bool operator==(const Gating&) const = default;
};

/// One layer's slice of a paged cache.
struct KvLayer {
  const KvPool* pool = nullptr;
  KvLayout layout;
  int layer = 0;
};

/// A page to be copied, by numbers.
struct PageCopy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// A row of draft logits from which a token is drawn.
struct ProposeTask {
  const float* logits = nullptr; ///< [vocabulary]
  int vocabulary = 0;            ///< Ids from here on are padding (p = q = 0).
  const sampling::Warping* warping = nullptr;
  sampling::History history;
  /// The place of the token after `history`, read when the task runs: `place` of a task in the
  /// piece before this one (Step::prepare_behind); null: `history` is complete.
  const TokenId* unseen = nullptr;
  sampling::Rule rule = sampling::Rule::rejection;
  sampling::Noise noise;
  std::uint32_t position = 0;
  std::uint32_t attempt = 0;
  float* q = nullptr; ///< [max(q_size, vocabulary)], gets the warped row; null: not wanted.
  int q_size = 0;     ///< Ids from `vocabulary` up to this get 0 in `q`; if less, none do.
  bool guesses_wanted = false;
  TokenId token = 0; ///< Result.
  /// The place where the piece after this one finds the token, known once `run` has returned; null:
  /// it is in `token`.
  const TokenId* place = nullptr;
  bool failed = false;       ///< Result: the row was not a distribution (NaN).
  sampling::Guesses guesses; ///< Result, if wanted.
};

/// A run of target rows that judge drafted tokens. Row i judges tokens[i]; when all of them are
/// accepted and `follow` is set, the row after them draws one more token.
struct VerifyTask {
  const float* logits = nullptr; ///< [tokens.size() + 1, stride], f32
  int stride = 0;
  int vocabulary = 0;
  const sampling::Warping* warping = nullptr;
  sampling::History history; ///< Row 0's; the operation adds the tokens judged before a row.
  sampling::Rule rule = sampling::Rule::rejection;
  sampling::Noise noise;
  std::uint32_t position = 0; ///< Position of tokens[0].
  std::span<const TokenId> tokens;
  std::span<const float* const> q; ///< One row per token; empty unless rule is `rejection`.
  bool follow = true;
  /// Repeat the draft's draw of every judged token from the row of q (`rejection` only).
  bool check_draws = false;
  std::uint32_t attempt = 0; ///< Attempt of these draws.
  int top_logprobs = -1;     ///< -1: no log-probabilities wanted.
  LogprobsMode logprobs_mode = LogprobsMode::raw;

  int accepted = 0;                   ///< Result: leading tokens accepted.
  bool ended = false;                 ///< Result: `next` holds a token (a rejection, or `follow`).
  TokenId next = 0;                   ///< Result: the token after the accepted ones.
  bool failed = false;                ///< Result: a row was not a distribution (NaN).
  bool inconsistent_draw = false;     ///< Result: a judged token was not its row's draw.
  std::vector<TokenLogprob> logprobs; ///< Result: one per accepted token, and one for `next`.
};

/// Computes log-probabilities of given tokens (prompt scoring): row i gives that of tokens[i].
struct ScoreTask {
  const float* logits = nullptr; ///< [tokens.size(), stride], f32
  int stride = 0;
  int vocabulary = 0;
  std::span<const TokenId> tokens;
  int top = 0;
  std::vector<TokenLogprob> logprobs; ///< Result.
};

/// The shards of a model that one team computes, one after the other.
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
  /// Waits for all ranks. Operations end with a barrier; only a step's own code needs this.
  virtual void barrier() = 0;

  /// Returns the shards of this team in a step that runs in shards (Step::in_shards). The teams of
  /// all shards run at once, and all operations but `meet` are within one team.
  virtual ShardRange shards() const { return {}; }
  /// Waits for all ranks of all teams; then each may read what the others have written before. If
  /// one of them fails, it throws on the others, so that none waits for a rank that does not come.
  virtual void meet();
  /// Sets out = parts[0] + parts[1] + ..., each number in this order; with `add`, adds the sum to
  /// out. A part: [rows, cols], in memory that all shards' lanes reach; call it after `meet`.
  virtual void sum(Tensor out, std::span<const Tensor> parts, bool add);

  /// Sets out[r] = scale * table[tokens[r]]; out: [rows, inputs of table]. Ids outside the table
  /// give zeros.
  virtual void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
                     float scale) = 0;
  /// Does the same for tokens that the piece before this one draws: row r's token is at places[r]
  /// (ProposeTask::place).
  virtual void embed_drawn(Tensor out, const Weight& table, std::span<const TokenId* const> places,
                           float scale);
  /// Sets out[r] += table[ids[r]] (learned positions). Ids outside the table add nothing.
  virtual void embed_add(Tensor out, const Weight& table, std::span<const std::int32_t> ids) = 0;
  /// Sets out[r] = in[r] / sqrt(mean(in[r]^2) + epsilon) * weight; weight: [cols], f32; may be in
  /// place.
  virtual void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) = 0;
  /// Sets out[r] = scale * (out[r] + rms_norm(in[r])) (a norm after a sublayer, before its
  /// residual).
  virtual void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon,
                            float scale) = 0;
  /// Sets out[r] = (in[r] - mean(in[r])) / sqrt(variance(in[r]) + epsilon) * weight + bias (Ba et
  /// al. 2016); weight, bias: [cols], f32; may be in place.
  virtual void layer_norm(Tensor out, Tensor in, const float* weight, const float* bias,
                          float epsilon) = 0;
  /// Sets out = in * w^T + bias; in: [rows, inputs], out: [rows, outputs] (stride may exceed the
  /// columns).
  virtual void linear(Tensor out, Tensor in, const Weight& w) = 0;
  /// Sets out += in * w^T + bias (residual).
  virtual void linear_add(Tensor out, Tensor in, const Weight& w) = 0;
  /// Sets out = in * w^T + bias, or += with `add`, by the fastest way for many rows, once
  /// Device::prepare_fast_products has seen the weight's shape. The bits may differ from linear's.
  /// They depend on a row alone all the same, if rows come in whole chunks of fast_chunk.
  virtual void linear_fast(Tensor out, Tensor in, const Weight& w, bool add);
  /// Sets out to what `gate` makes of in * w^T + bias. made: [rows, 2 out.cols], for that product,
  /// which need not be there afterwards.
  virtual void linear_gate(Tensor out, Tensor made, Tensor in, const Weight& w,
                           const Gating& gating);
  /// Chooses the experts of each row: those with the highest scores, among equal ones the lowest
  /// number. A weight is what RouterScores makes of the score, in the row. scores: [rows, experts],
  /// overwritten. bias: [experts], f32, is added where experts and groups are chosen, not to
  /// weights; null: none. Groups and biases are for RouterScores::sigmoid.
  virtual void route(const Routing& routing, Tensor scores, const float* bias,
                     const RouterOptions& options) = 0;
  /// Sets out[s] = in * w_e^T + bias for the expert e of each slot s. w: the experts' weights one
  /// below the other, of equal outputs, which are a multiple of 16. out: [picks, an expert's
  /// outputs], in slots; in: [rows, inputs] or [picks, inputs], as `order` says. The weights of an
  /// expert that has no rows are not read, those of any other once for all its rows.
  virtual void expert_linear(Tensor out, Tensor in, RoutedRows order, const Weight& w,
                             const Routing& routing) = 0;
  /// Sets out[r] to the weighted sum of a row's picks in the order of these, or adds it with `add`.
  /// out: [rows, cols]; in: [picks, cols], in slots.
  virtual void combine(Tensor out, Tensor in, const Routing& routing, bool add) = 0;
  /// Sets a row's logits of the ids that its picks say, and -infinity of all others. out: [rows,
  /// experts * cols], an expert's ids together; in: [picks, cols], in slots.
  virtual void spread(Tensor out, Tensor in, const Routing& routing) = 0;
  /// Sets x[r, i] *= sigmoid(scores[r, i]) (the gate of a shared expert, or of attention's output).
  /// scores: [rows, cols], or [rows, 1] for all of a row.
  virtual void scale_by_sigmoid(Tensor x, Tensor scores) = 0;
  /// Normalises and rotates queries and keys in place (pairs (i, i + rope's columns), Su et al.
  /// 2021 as in Llama), then writes keys and values to the cache, to each place that a row has.
  /// qkv: [rows, (heads + 2 kv_heads) * head_dim], queries first, then keys, then values; or [rows,
  /// heads * head_dim], queries alone, which see what another layer has stored in `cache`; or,
  /// without heads, keys and values alone.
  virtual void rope_store(Tensor qkv, int heads, const RopeTable& rope, const HeadNorms& norms,
                          const RowMap& rows, const KvLayer& cache) = 0;
  /// Computes attention of each row over the positions up to its own that it sees, through the page
  /// tables.
  /// Pages that no row of the call sees are not touched.
  /// out: [rows, heads * head_dim]; queries are the first columns of qkv.
  virtual void attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                         const RowMap& rows, const KvLayer& cache) = 0;
  /// Advances states, and computes what each row gives (Recurrence). out: [rows, values]; in:
  /// [rows, channels]; rates: [rows, rates]. The runs have all rows, each in its order.
  virtual void recurrence(Tensor out, Tensor in, Tensor rates, const Recurrence& rule,
                          std::span<const StateRun> runs, const StateLayer& states) = 0;
  /// Computes a short convolution (ShortConvolution), and keeps beside states what it reads of
  /// rows. out: [rows, channels]; in: [rows, 3 channels], overwritten. The runs are as with
  /// recurrence.
  virtual void short_convolution(Tensor out, Tensor in, const ShortConvolution& convolution,
                                 std::span<const StateRun> runs, const StateLayer& states) = 0;
  /// Normalises and gates what a recurrence gives, in place. x, gates: [rows, values]
  virtual void gated_rms_norm(Tensor x, Tensor gates, const GatedNorm& norm) = 0;
  /// Gates in[r, n + i] by in[r, i] (Gating); in: [rows, 2 n], out: [rows, n].
  virtual void gate(Tensor out, Tensor in, const Gating& gating) = 0;
  /// Sets out = activation(in), of a feed-forward without gates; not clamped_silu; may be in place.
  virtual void activate(Tensor out, Tensor in, Activation activation) = 0;
  /// Sets x = cap * tanh(x / cap), cap > 0.
  virtual void soft_cap(Tensor x, float cap) = 0;
  /// Sets out[i] = in[rows[i]].
  virtual void gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) = 0;
  /// Sets out[rows[i]] = in[i]; `rows` has no duplicates.
  virtual void scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) = 0;
  /// Sets out[r, i] = in[r, columns[i]], or -infinity if columns[i] is negative. columns:
  /// [out.cols], whole numbers as floats, in device memory (Device::upload).
  virtual void gather_columns(Tensor out, Tensor in, const float* columns) = 0;

  /// Copies whole pages of the cache; it precedes all writes of this pass.
  virtual void copy_pages(const KvPool& pool, std::span<const PageCopy> pages) = 0;

  virtual void propose(std::span<ProposeTask> tasks) = 0;
  virtual void verify(std::span<VerifyTask> tasks) = 0;
  virtual void score(std::span<ScoreTask> tasks) = 0;
};

} // namespace paceline::gpu
