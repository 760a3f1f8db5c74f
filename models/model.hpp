// A language model as the engine sees it: tokens and pages in, rows of logits out.
#pragma once

#include "base/log.hpp"
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "models/layer_range.hpp"
#include "models/limits.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace paceline::models {

/// What a model with taps (with_taps) has left of a sequence's leading `count` positions, all of
/// them committed, in its own pages.
struct Features {
  const gpu::KvPool* pool = nullptr;
  std::span<const std::uint32_t> pages;
  int count = 0;
};

/// Tokens of one sequence to feed: tokens[i] stands at position start + i. The pages must cover
/// them; positions before `start` must be in the cache. Logits are wanted for tokens from index
/// `logits_from` on (tokens.size(): none).
struct SequenceRows {
  std::span<const std::uint32_t> pages;
  int start = 0;
  std::span<const TokenId> tokens;
  int logits_from = 0;
  /// By the fast path (Model::prepare_fast_prefill): whole chunks of gpu::fast_chunk tokens from a
  /// multiple of that on, and no logits.
  bool fast = false;
  /// The only token is the one that the pass before this one draws, and is found here when the pass
  /// runs (gpu::ProposeTask::place); tokens[0] is not read. All sequences of a pass, or none.
  const TokenId* drawn = nullptr;
  /// Read by a head on another model (eagle3.hpp); where these end it goes on from its own.
  Features features{};

  int rows() const { return int(tokens.size()); }
  int logit_rows() const { return int(tokens.size()) - logits_from; }
};

/// Memory for forward passes of one lane, one at a time. logits: [logit rows, vocabulary], in the
/// order of the sequences; valid until the next forward pass with the same workspace.
class Workspace {
public:
  virtual ~Workspace() = default;
  virtual gpu::Tensor logits() const = 0;

  /// Of a stage (CheckpointSource::load_stages), set before each pass: what the stage before has
  /// left, and where this one leaves what the next one reads. [rows, Model::handed_on], of all rows
  /// of the pass (but see Model::leaves_wanted), in memory that the lane uses.
  gpu::Tensor received;
  gpu::Tensor left;
  /// Called once a pass, on one of the ranks, when its last layer begins: what follows on another
  /// lane is about to. Set before each pass; empty: nobody wants to know.
  std::function<void()> nearly_done;
};

/// Immutable after loading; shared by lanes. Threads: all members from any.
class Model {
public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  /// Rows of the output head, padding included; ids the tokenizer does not know are padding.
  virtual int vocabulary() const = 0;
  virtual gpu::KvShape kv_shape(int page_tokens) const = 0;
  /// The tokens of a page are a multiple of this.
  virtual int page_tokens_multiple() const { return 1; }
  /// Positions behind which no row looks: a row at position p needs those from p - window + 1 on.
  /// 0: rows look back to the first.
  virtual int window() const { return 0; }
  virtual gpu::Device& device() const = 0;
  /// Of a stage: the floats of a row that it leaves for the next one. 0: it leaves logits.
  virtual int handed_on() const { return 0; }
  /// Of a stage that leaves something: whether that is the rows alone whose logits are asked for,
  /// in their order, for nothing but the head is behind it.
  virtual bool leaves_wanted() const { return false; }
  /// The weights that every step reads from end to end: what a step costs at least.
  virtual std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const { return {}; }

  /// Readies passes with up to `rows` rows of the fast path (gpu::Device::prepare_fast_products),
  /// on lanes that are opened from now on.
  virtual Result<void> prepare_fast_prefill(int /*rows*/) const {
    return fail(ErrorCode::unsupported, "this model has no fast path for prompts",
                "leave EngineOptions::prefill out");
  }

  virtual Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                            int max_logit_rows) const = 0;
  /// Two halves of a pass. `plan` runs on one thread and lays out rows in the workspace; `forward`
  /// runs on every rank of the lane's team. The batch's spans must outlive the pass.
  virtual void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
                    Workspace& workspace) const = 0;
  virtual void forward(gpu::Operations& operations, Workspace& workspace) const = 0;
};

using ProgressCallback = std::function<void(const std::string& what, double done)>;

struct LoadOptions {
  NumberFormat dtype = NumberFormat::automatic;  ///< automatic: the checkpoint's own.
  ProgressCallback progress;                     ///< May be empty.
  base::Log log = {};                            ///< For what is not as the checkpoint wants it.
  std::stop_token stop = {};                     ///< As EngineOptions::stop.
  int max_positions = limits::positions_default; ///< A longer context is cut to this.
  int positions_needed = 0;                      ///< A shorter one is refused.
  std::optional<gpu::Quantization> blocks = {};  ///< Of their linear layers; none: dtype.
  std::optional<gpu::Quantization> head = {};    ///< Of the output head; none: dtype.
  std::vector<int> stage_layers = {}; ///< Of each stage; empty: divided by what they cost.
  /// These alone, on one device: a stage whose neighbours are on other machines.
  std::optional<LayerRange> only = {};
  /// The same checkpoint, loaded with these options but `blocks` into memory that the device uses:
  /// all but the linear layers of its blocks serves this model, too. Null: nothing is shared.
  std::shared_ptr<const Model> shared = {};
  /// Of a head (eagle3.hpp), loaded into memory that the device uses, too: the model that it is a
  /// head on, whose embedding serves it where it has none.
  std::shared_ptr<const Model> target = {};
};

/// The formats that an engine's options give the model of `role`, "target" or "draft".
LoadOptions load_formats(const EngineOptions& options, const std::string& role);

/// The model at a location that resolve_model_path gave, packed for `device`.
Result<std::shared_ptr<const Model>> load_model(const std::string& location,
                                                std::shared_ptr<gpu::Device> device,
                                                const LoadOptions& options);

} // namespace paceline::models
