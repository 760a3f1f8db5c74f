// A language model as the engine sees it: tokens and pages in, rows of logits out.
#pragma once

#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "models/layer_range.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

/// Features that a model with taps (with_taps) has left in its own pages for a sequence's leading
/// `count` positions, all of which are committed.
struct Features {
  const gpu::KvPool* pool = nullptr;
  std::span<const std::uint32_t> pages;
  int count = 0;
  /// Pages of the features from `path_from` on; empty: all are in `pages`.
  std::span<const std::uint32_t> path{};
  int path_from = 0;

  /// Returns the row of the pool's features for one of these positions.
  std::int32_t row(int position) const {
    return pool->feature_row(path.empty() || position < path_from ? pages : path, position);
  }
};

/// Tokens of one sequence to feed: tokens[i] stands at position start + i. The pages must cover
/// them; positions before `start` must be in the cache. Where layers are recurrent, `start` is at
/// most one before the positions that are in the state. Logits are computed for tokens from index
/// `logits_from` on (tokens.size(): none).
struct SequenceRows {
  std::span<const std::uint32_t> pages;
  int start = 0;
  std::span<const TokenId> tokens;
  int logits_from = 0;
  /// Takes the fast path (Model::prepare_fast_prefill): whole chunks of gpu::fast_chunk tokens,
  /// from a multiple of that on, and no logits.
  bool fast = false;
  /// The place where the only token is found when the pass runs: the pass before this one draws it
  /// (gpu::ProposeTask::place), and tokens[0] is not read. All sequences of a pass have such a
  /// place, or none has.
  const TokenId* drawn = nullptr;
  /// Features that a head on another model (head.hpp) reads; behind them it goes on from its own.
  Features features{};
  /// Rows behind the tokens that stand for tokens to be drafted, of a model that drafts blocks
  /// (Model::block_tokens). `logits_from` counts them with the tokens.
  int masks = 0;
  /// The sequence so many before this one in the batch (none of these takes the fast path) has rows
  /// for the positions from `shared_from` up to `start`, which these rows see: their keys and
  /// values are stored in `pages`, too. 0: there is none.
  int shares_with = 0;
  int shared_from = 0;
  /// The sequence's state, by number, if the model has recurrent layers (Model::kv_shape).
  std::uint32_t state = 0;
  /// The last rows, which may be taken back: the tokens there are not committed. A state holds none
  /// of them.
  int tentative = 0;
  /// States by number, -1: none. Before rows from `begin_at` on the state becomes a copy of
  /// `begin`. `snapshot` becomes a copy of the state, once it holds `snapshot_at` positions.
  std::int32_t begin = -1;
  int begin_at = 0;
  std::int32_t snapshot = -1;
  int snapshot_at = 0;

  int rows() const { return int(tokens.size()); }
  int logit_rows() const { return rows() + masks - logits_from; }
};

/// Memory for the forward passes of one lane, one at a time. logits: [logit rows, vocabulary], in
/// the order of the sequences; valid until the next forward pass with the same workspace.
class Workspace {
public:
  virtual ~Workspace() = default;
  virtual gpu::Tensor logits() const = 0;

  /// Rows between stages (load_model), set before each pass: those that the
  /// stage before has left, and the place of those that this one leaves for the next. [rows,
  /// Model::handed_on], for all rows of the pass (but see Model::leaves_wanted), in memory that the
  /// lane uses.
  gpu::Tensor received;
  gpu::Tensor left;
  /// Called once a pass, on one of the ranks, when its last layer begins, so that work that follows
  /// on another lane can be prepared. Set before each pass; may be empty.
  std::function<void()> nearly_done;
};

/// The weights of a mixture's experts. A step reads those that its rows go to.
struct ExpertWeights {
  std::vector<std::shared_ptr<const gpu::Weight>> weights;
  double share = 0; ///< The part of them that one row reads.
};

/// A loaded model. Immutable, and shared by lanes. Threads: all members from any.
class Model {
public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  /// Returns the rows of the output head, padding included: ids that the tokenizer does not know.
  virtual int vocabulary() const = 0;
  virtual gpu::KvShape kv_shape(int page_tokens) const = 0;
  /// Returns the bytes of keys and values over those of bf16, if they have 8 bits; else 1.
  virtual double cache_width() const { return 1; }
  /// Returns a number of which a page's tokens must be a multiple.
  virtual int page_tokens_multiple() const { return 1; }
  /// Returns how many positions a row sees: a row at position p needs those from p - window + 1 on.
  /// 0: rows look back to the first position.
  virtual int window() const { return 0; }
  virtual gpu::Device& device() const = 0;
  /// Returns the number, among the shards of its device, of the one that has the logits.
  virtual int logits_shard() const { return 0; }
  /// Returns how many floats of a row a stage leaves for the next one. 0: it leaves logits.
  virtual int handed_on() const { return 0; }
  /// Returns whether a stage leaves only the rows whose logits are asked for, in their order,
  /// because only the head is behind it.
  virtual bool leaves_wanted() const { return false; }
  /// Returns how many tokens behind the last committed one a pass drafts at most, each knowing
  /// nothing of the others (SequenceRows::masks). 0: it drafts the one behind what it reads.
  virtual int block_tokens() const { return 0; }
  /// Returns the weights that every step reads from end to end, and so the least cost of a step.
  virtual std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const { return {}; }
  /// Returns the weights of experts, which a step reads in part.
  virtual ExpertWeights expert_weights() const { return {}; }

  /// Prepares passes with up to `rows` rows of the fast path (gpu::Device::prepare_fast_products),
  /// on lanes that are opened from now on.
  virtual Result<void> prepare_fast_prefill(int /*rows*/) const {
    return fail(ErrorCode::unsupported, "this model has no fast path for prompts",
                "leave EngineOptions::prefill out");
  }

  virtual Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                            int max_logit_rows) const = 0;
  /// The two halves of a pass. `plan` runs on one thread and lays out rows in the workspace;
  /// `forward` runs on every rank of the lane's team. The batch's spans must outlive the pass.
  virtual void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
                    Workspace& workspace) const = 0;
  virtual void forward(gpu::Operations& operations, Workspace& workspace) const = 0;
};

} // namespace paceline::models
