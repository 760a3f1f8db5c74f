#include "models/transformer.hpp"

#include "models/state_run.hpp"
#include "models/transformer_shard.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace paceline::models {
namespace {

void clear(gpu::RowMap& rows) {
  rows.sequence.clear();
  rows.position.clear();
  rows.pages.clear();
  rows.copies.clear();
}

void add_row(gpu::RowMap& rows, int sequence, int position) {
  rows.sequence.push_back(sequence);
  rows.position.push_back(position);
}

class Transformer final : public Model {
public:
  /// weights: one for each shard; a single one: the whole model.
  Transformer(ModelConfig config, std::vector<TransformerWeights> weights, ModelInfo info,
              std::shared_ptr<gpu::Device> device)
      : config_(std::move(config)), info_(std::move(info)), device_(std::move(device)) {
    const auto members = device_->shards();
    assert(weights.size() == std::max<std::size_t>(members.size(), 1));
    const int count = int(weights.size());
    for (int i = 0; i < count; ++i)
      shards_.emplace_back(config_, std::move(weights[std::size_t(i)]),
                           members.empty() ? device_ : members[std::size_t(i)], Shard{i, count});
  }

  const TransformerShard& first_shard() const { return shards_.front(); }
  const ModelConfig& config() const { return config_; }
  std::shared_ptr<const Model> with_taps(std::vector<int> layers, std::vector<int> keys) const {
    ModelConfig config = config_;
    config.taps = std::move(layers);
    config.key_taps = std::move(keys);
    return make_transformer(std::move(config), std::vector{first_shard().weights()}, info_,
                            device_);
  }
  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return config_.logits(); }
  int handed_on() const override { return first_shard().is_last() ? 0 : config_.hidden; }
  bool leaves_wanted() const override { return first_shard().ends() && !first_shard().is_last(); }
  /// A stage has pages and, in a recurrent model, states, whatever its own layers are, since these
  /// have one number in all stages.
  gpu::KvShape kv_shape(int page_tokens) const override {
    const std::size_t least = first_shard().is_tail() ? 0 : sizeof(float);
    return {page_tokens, std::max(first_shard().token_bytes(), least), config_.features(),
            int(shards_.size()),
            config_.has_states() ? std::max(first_shard().states().bytes(), least) : 0};
  }
  double cache_width() const override { return first_shard().cache_width(); }
  int page_tokens_multiple() const override { return 2; } // keys of bf16 are stored in pairs
  /// A head reads the features of all positions, so with taps there is no window.
  int window() const override { return config_.taps.empty() ? config_.window() : 0; }
  gpu::Device& device() const override { return *device_; }
  std::vector<std::shared_ptr<const gpu::Weight>> step_weights() const override {
    std::vector<std::shared_ptr<const gpu::Weight>> all;
    for (const TransformerShard& shard : shards_) {
      for (const auto& weights : {shard.dense_weights(), shard.small_weights()})
        all.insert(all.end(), weights.begin(), weights.end());
      const TransformerWeights& weights = shard.weights();
      for (const auto& weight :
           {weights.clusters ? weights.clusters : weights.head, weights.fusion, weights.fusion_out})
        if (weight)
          all.push_back(weight);
    }
    return all;
  }

  ExpertWeights expert_weights() const override {
    ExpertWeights all;
    for (const TransformerShard& shard : shards_) {
      const auto blocks = shard.expert_weights();
      all.weights.insert(all.weights.end(), blocks.begin(), blocks.end());
    }
    if (config_.mixture)
      all.share = double(config_.mixture->top_k) / config_.mixture->experts;
    if (config_.fusion && config_.fusion->clusters) // Such a head has no mixture.
      all = {{first_shard().weights().head},
             double(config_.fusion->clusters->used) / config_.fusion->clusters->clusters};
    return all;
  }

  Result<void> prepare_fast_prefill(int rows) const override {
    for (const TransformerShard& shard : shards_) // Prompts need no logits.
      if (auto ready = shard.device().prepare_fast_products(shard.dense_weights(), rows); !ready)
        return ready;
    return {};
  }

  Result<std::unique_ptr<Workspace>> make_workspace(int max_rows,
                                                    int max_logit_rows) const override {
    auto space = std::make_unique<TransformerWorkspace>();
    if (first_shard().is_last()) {
      auto logits = space->allocate(*device_, max_logit_rows, config_.logits());
      if (!logits)
        return tl::unexpected(logits.error());
      space->logit_rows = *logits;
    }
    if (!first_shard().is_first() || !first_shard().is_last() || config_.layer_inputs > 0) {
      space->every.resize(std::size_t(max_rows));
      std::iota(space->every.begin(), space->every.end(), 0);
    }
    space->shards.resize(shards_.size());
    for (const TransformerShard& shard : shards_)
      if (auto ready = shard.allocate(*space, *device_, max_rows, max_logit_rows); !ready)
        return tl::unexpected(ready.error());
    return space;
  }

  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override {
    auto& space = static_cast<TransformerWorkspace&>(workspace);
    space.tokens.clear();
    space.drawn.clear();
    space.wanted.clear();
    space.runs.clear();
    clear(space.rows);
    clear(space.wanted_rows);
    space.features.clear(pool);
    for (const bool fast : {false, true}) {
      const int before = space.rows.rows();
      for (const SequenceRows& sequence : batch)
        if (sequence.fast == fast)
          plan_sequence(sequence, pool, space);
      space.fast = space.rows.rows() - before;
    }
    std::ranges::sort(space.rows.copies, {}, &gpu::RowMap::Copy::row);
    space.wanted_rows.pages = space.rows.pages;
    space.features.given_rows.pages = space.rows.pages;
    for (const TransformerShard& shard : shards_)
      shard.plan(pool, space);
    assert(space.drawn.empty() || (space.tokens.empty() && shards_.size() == 1));
    assert(first_shard().is_tail() || space.rows.rows() <= space.shards.front().all.residual.rows);
    assert(handed_on() > 0 || int(space.wanted.size()) <= space.logit_rows.rows);
  }

  void forward(gpu::Operations& operations, Workspace& workspace) const override {
    const auto& space = static_cast<const TransformerWorkspace&>(workspace);
    go_through(operations, workspace);
    if (operations.rank() != 0)
      return;
    const gpu::KvPool* const pool = space.shards.front().states.pool;
    for (const gpu::StateRun& run : space.runs) // A pass that failed leaves states of no use.
      note_held(*pool, run);
  }

private:
  void go_through(gpu::Operations& operations, Workspace& workspace) const {
    auto& space = static_cast<TransformerWorkspace&>(workspace);
    const int wanted = int(space.wanted.size());
    if (!space.features.given.empty()) // Only a head has such, which is one shard.
      TransformerShard::Pass(first_shard(), space).take_keys(operations);
    if (space.rows.rows() == 0 || (first_shard().is_tail() && wanted == 0))
      return;
    std::vector<TransformerShard::Pass> passes;
    const gpu::ShardRange here = shards_.size() > 1 ? operations.shards() : gpu::ShardRange();
    for (int i = here.first; i < here.end(); ++i)
      passes.emplace_back(shards_[std::size_t(i)], space);
    const auto all = [&](auto what, auto... which) {
      for (TransformerShard::Pass& pass : passes)
        (pass.*what)(operations, which...);
    };
    using Pass = TransformerShard::Pass;
    all(&Pass::enter);
    if (first_shard().is_first())
      add_up(operations, passes);
    if (config_.layer_inputs > 0)
      all(&Pass::make_inputs);
    const bool tells = operations.rank() == 0 && here.first == 0 && workspace.nearly_done;
    const int narrowing = narrowing_layer();
    const int own = first_shard().layers() - 1;
    const int last = wanted == 0 ? std::min(narrowing, own) : own;
    for (int i = 0; i <= last; ++i) {
      if (tells && i == last)
        workspace.nearly_done();
      all(&Pass::store, i);
      if (i == narrowing && wanted == 0)
        return;
      if (i == narrowing && wanted < space.rows.rows())
        all(&Pass::narrow, i);
      // Attention has read its rows already, so another part that reads the same may come first.
      const auto add = [&](auto part, bool has) {
        if (!has)
          return;
        all(part, i);
        add_up(operations, passes);
      };
      const int layer = first_shard().weights().first_layer + i;
      if (config_.parallel)
        add(&Pass::feed_forward, config_.feeds(layer));
      add(&Pass::attend, config_.has_mixer(layer));
      if (!config_.parallel)
        add(&Pass::feed_forward, config_.feeds(layer));
      if (config_.layer_inputs > 0)
        all(&Pass::add_input, i);
    }
    all(&Pass::leave);
  }

  /// Returns the layer of these behind whose mixer only the rows go on whose logits are asked for;
  /// their number: all rows leave them.
  int narrowing_layer() const {
    const TransformerShard& shard = first_shard();
    return shard.ends() ? std::max(0, config_.last_for_all() - shard.weights().first_layer)
                        : shard.layers();
  }

  void add_up(gpu::Operations& operations, std::vector<TransformerShard::Pass>& passes) const {
    if (shards_.size() == 1)
      return;
    operations.meet();
    for (TransformerShard::Pass& pass : passes)
      pass.add_up(operations);
  }

  /// Lays out a sequence's rows. A head's row for the token at some position stands one position
  /// before it, where the features are that it reads; so the first token has none. A head without
  /// keys of its own needs only the rows whose logits are asked for.
  void plan_sequence(const SequenceRows& sequence, const gpu::KvPool& pool,
                     TransformerWorkspace& space) const {
    const int index = int(space.rows.pages.size());
    const int shift = config_.fusion ? 1 : 0;
    const int first = sequence.start < shift ? 1 : 0;
    space.rows.pages.push_back(sequence.pages);
    const int from = config_.reads_keys() ? sequence.logits_from : first;
    if (sequence.drawn)
      space.drawn.push_back(sequence.drawn);
    else
      space.tokens.insert(space.tokens.end(), sequence.tokens.begin() + from,
                          sequence.tokens.end());
    assert(first == 0 || !sequence.drawn);
    assert(sequence.logits_from >= first);
    assert(!sequence.drawn || sequence.rows() == 1);
    assert(sequence.start + sequence.rows() <= config_.context);
    assert(!sequence.fast ||
           (sequence.start % gpu::fast_chunk == 0 && sequence.rows() % gpu::fast_chunk == 0 &&
            sequence.logit_rows() == 0));
    if (config_.has_states())
      space.runs.push_back(state_run(sequence, pool, space.rows.rows()));
    if (sequence.shares_with > 0)
      share_rows(sequence, index, space.rows);
    if (config_.reads_keys())
      for (int i = first; i < sequence.rows(); ++i)
        space.features.take_keys(sequence, index, sequence.start + i - 1);
    for (int i = from; i < sequence.rows(); ++i) {
      const int position = sequence.start + i;
      const int seen = last_seen(sequence, position - shift);
      const bool wanted = i >= sequence.logits_from;
      if (wanted) {
        space.wanted.push_back(space.rows.rows());
        add_row(space.wanted_rows, index, seen);
      }
      if (config_.fusion)
        space.features.read(sequence, pool, position, space.rows.rows());
      if (config_.fusion ? wanted : !config_.taps.empty())
        space.features.left.push_back(pool.feature_row(sequence.pages, position));
      add_row(space.rows, index, seen);
    }
  }

  /// Returns the last position that a row sees: the one that it stands at, or the last one whose
  /// keys a head was given, since it has none of its own drafts. A head alone is only measured.
  int last_seen(const SequenceRows& sequence, int position) const {
    const bool given = config_.reads_keys() && sequence.features.pool;
    return given ? std::min(position, sequence.features.count - 1) : position;
  }

  /// Has the rows that the sequence shares with one before it stored in its pages, too.
  static void share_rows(const SequenceRows& sequence, int index, gpu::RowMap& rows) {
    const auto with = std::ranges::equal_range(rows.sequence, index - sequence.shares_with);
    const auto first = int(with.begin() - rows.sequence.begin());
    for (int row = first; row < first + int(with.size()); ++row) {
      const int position = rows.position[std::size_t(row)];
      if (position >= sequence.shared_from && position < sequence.start)
        rows.copies.push_back({row, index});
    }
  }

  ModelConfig config_;
  std::vector<TransformerShard> shards_;
  ModelInfo info_;
  std::shared_ptr<gpu::Device> device_;
};

} // namespace

std::shared_ptr<const Model> make_transformer(ModelConfig config,
                                              std::vector<TransformerWeights> shards,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device) {
  return std::make_shared<const Transformer>(std::move(config), std::move(shards), std::move(info),
                                             std::move(device));
}

std::shared_ptr<const Model> with_taps(const Model& transformer, std::vector<int> layers,
                                       std::vector<int> keys) {
  return dynamic_cast<const Transformer&>(transformer)
      .with_taps(std::move(layers), std::move(keys));
}

const ModelConfig* config_of(const Model& model) {
  const auto* transformer = dynamic_cast<const Transformer*>(&model);
  return transformer ? &transformer->config() : nullptr;
}

const TransformerWeights* weights_of(const Model& model) {
  const auto* transformer = dynamic_cast<const Transformer*>(&model);
  return transformer ? &transformer->first_shard().weights() : nullptr;
}

} // namespace paceline::models
