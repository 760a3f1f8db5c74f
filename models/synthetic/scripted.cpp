#include "models/synthetic/scripted.hpp"

#include "models/limits.hpp"
#include "models/stage_elsewhere.hpp"
#include "models/state_run.hpp"
#include "models/synthetic/scripted_rows.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::models {
namespace {

class ScriptedWorkspace final : public Workspace {
public:
  ScriptedWorkspace(std::shared_ptr<gpu::Buffer> memory, int max_logit_rows, int vocabulary)
      : memory_(std::move(memory)), max_logit_rows_(max_logit_rows), vocabulary_(vocabulary) {}

  gpu::Tensor logits() const override { return memory_->tensor(max_logit_rows_, vocabulary_); }

  std::vector<SequenceRows> batch;
  const gpu::KvPool* pool = nullptr;

private:
  std::shared_ptr<gpu::Buffer> memory_;
  int max_logit_rows_;
  int vocabulary_;
};

/// Layout of a row that a stage hands on: its token, a digest of the context that this stage and
/// those before it have in their pages, and the hash of its own row (hash_context), for a head that
/// has no pages. All are whole numbers that a float holds.
constexpr int handed_token = 0;
constexpr int handed_digest = 1;
constexpr int handed_hash = 2;
constexpr int hash_parts = 3;
constexpr int hash_part_bits = 22;
constexpr int handed_width = handed_hash + hash_parts;

void write_hash(float* row, std::uint64_t hash) {
  for (int i = 0; i < hash_parts; ++i, hash >>= hash_part_bits)
    row[handed_hash + i] = float(hash & ((1u << hash_part_bits) - 1));
}

std::uint64_t read_hash(const float* row) {
  std::uint64_t hash = 0;
  for (int i = hash_parts; i-- > 0;)
    hash = hash << hash_part_bits | std::uint64_t(row[handed_hash + i]);
  return hash;
}

std::uint32_t digest(std::uint32_t before, std::uint64_t context) {
  constexpr std::uint32_t whole_numbers = 1 << 24;
  return std::uint32_t(mix(context ^ mix(before))) % whole_numbers;
}

/// The state of a recurrent scripted model, as it lies in a pool.
struct ScriptedState {
  /// Rows that may be taken back, and one that may be read again.
  static constexpr int kept_max = sampling::limits::window_max + 1;

  std::array<TokenId, limits::scripted_memory_max> last; ///< Of these the last `memory` count.
  std::array<TokenId, kept_max> kept;                    ///< By position.

  void push(TokenId token) {
    std::shift_left(last.begin(), last.end(), 1);
    last.back() = token;
  }
};

class ScriptedModel final : public Model {
public:
  /// layers: one of `all`, or only the head behind them.
  ScriptedModel(const ScriptedOptions& options, std::shared_ptr<gpu::Device> device,
                LayerRange layers, int all)
      : options_(options), device_(std::move(device)), layers_(layers), all_(all) {
    info_.name = canonical_name(options_);
    info_.architecture = "scripted";
    info_.parameters = std::uint64_t(options_.vocabulary);
    info_.dtype = info_.weights = info_.head_weights = "f32";
    info_.device = device_->name();
    info_.kernel = device_->kernel();
    info_.shards = std::max(1, int(device_->shards().size()));
    info_.vocabulary = options_.vocabulary;
    info_.max_model_len = options_.context;
  }

  const ModelInfo& info() const override { return info_; }
  int vocabulary() const override { return options_.vocabulary; }
  int handed_on() const override { return layers_.has_head(all_) ? 0 : handed_width; }
  bool leaves_wanted() const override { return layers_.end() == all_ && !layers_.has_head(all_); }
  gpu::KvShape kv_shape(int page_tokens) const override {
    return {page_tokens, is_head_alone() ? 0 : sizeof(TokenId), 0, info_.shards,
            options_.recurrent ? sizeof(ScriptedState) : 0};
  }
  gpu::Device& device() const override { return *device_; }

  Result<std::unique_ptr<Workspace>> make_workspace(int /*max_rows*/,
                                                    int max_logit_rows) const override {
    const auto bytes =
        std::size_t(max_logit_rows) * std::size_t(options_.vocabulary) * sizeof(float);
    auto memory = device_->allocate(std::max<std::size_t>(bytes, 1));
    if (!memory)
      return tl::unexpected(memory.error());
    return std::make_unique<ScriptedWorkspace>(std::move(*memory), max_logit_rows,
                                               options_.vocabulary);
  }

  void plan(std::span<const SequenceRows> batch, const gpu::KvPool& pool,
            Workspace& workspace) const override {
    auto& space = static_cast<ScriptedWorkspace&>(workspace);
    space.batch.assign(batch.begin(), batch.end());
    space.pool = &pool;
  }

  /// Each shard keeps the context in its own pages, and the first shard reads those of all.
  void forward(gpu::Operations& operations, Workspace& workspace) const override {
    auto& space = static_cast<ScriptedWorkspace&>(workspace);
    const bool divided = !device_->shards().empty();
    const gpu::ShardRange here = divided ? operations.shards() : gpu::ShardRange();
    const bool keeps = operations.rank() == 0 && !is_head_alone();
    for (int shard = here.first; shard < here.end() && keeps; ++shard)
      keep_context(space, space.pool->shard(shard));
    divided ? operations.meet() : operations.barrier();
    if (operations.rank() == 0 && here.first == 0)
      run(space);
    operations.barrier();
  }

private:
  void keep_context(const ScriptedWorkspace& space, const gpu::KvPool& pool) const {
    int row = 0;
    for (auto at = space.batch.begin(); at != space.batch.end(); ++at) {
      for (int i = 0; i < at->rows(); ++i, ++row) {
        const TokenId token = token_of(space, *at, i, row);
        std::memcpy(slot(pool, *at, at->start + i), &token, sizeof(TokenId));
      }
      for (int i = at->shared_from; at->shares_with > 0 && i < at->start; ++i)
        std::memcpy(slot(pool, *at, i), slot(pool, *(at - at->shares_with), i), sizeof(TokenId));
    }
  }

  bool is_head_alone() const { return layers_.count == 0; }

  void run(ScriptedWorkspace& space) const {
    int row = 0;
    int out = 0;
    for (const SequenceRows& rows : space.batch) {
      const auto hashes =
          options_.recurrent ? advance(*space.pool, rows) : std::vector<std::uint64_t>();
      for (int i = 0; i < rows.rows(); ++i) {
        const bool wanted = i >= rows.logits_from;
        if (is_head_alone()) { // it has received only the wanted rows
          if (wanted)
            write_logits(space, read_hash(space.received.row(out)), out, out);
        } else if (handed_on() > 0 && !leaves_wanted()) {
          hand_on(space, rows, i, row, row);
        } else if (wanted) {
          handed_on() > 0
              ? hand_on(space, rows, i, row, out)
              : write_logits(space,
                             options_.recurrent ? hashes[std::size_t(i)] : hash_of(space, rows, i),
                             row, out);
        }
        ++row;
        out += wanted;
      }
    }
  }

  static ScriptedState& state_in(const gpu::KvPool& pool, std::uint32_t state) {
    return *reinterpret_cast<ScriptedState*>(pool.state(state));
  }

  /// Advances a sequence's state by the rows that are certain; returns the hash of each row.
  std::vector<std::uint64_t> advance(const gpu::KvPool& pool, const SequenceRows& rows) const {
    const gpu::StateRun run = state_run(rows, pool, 0);
    ScriptedState& state = state_in(pool, rows.state);
    if (run.begin >= 0)
      state = state_in(pool, std::uint32_t(run.begin));
    ScriptedState own = state;
    std::vector<std::uint64_t> hashes;
    for (int position = std::min(run.held, run.position); position < run.end(); ++position) {
      const bool kept = position < run.position;
      if (position >= run.held)
        own.push(kept ? state.kept[std::size_t(position % ScriptedState::kept_max)]
                      : rows.tokens[std::size_t(position - run.position)]);
      if (position + 1 == run.certain)
        state.last = own.last;
      if (position + 1 == run.snapshot_at && run.snapshot >= 0)
        state_in(pool, std::uint32_t(run.snapshot)).last = own.last;
      if (!kept)
        hashes.push_back(hash_context(options_, std::span(own.last).last(std::size_t(
                                                    std::min(position + 1, options_.memory)))));
    }
    for (int position = std::max(run.certain, run.position); position < run.end(); ++position)
      state.kept[std::size_t(position % ScriptedState::kept_max)] =
          rows.tokens[std::size_t(position - run.position)];
    note_held(pool, run);
    return hashes;
  }

  TokenId token_of(const ScriptedWorkspace& space, const SequenceRows& rows, int i, int row) const {
    if (layers_.first > 0)
      return TokenId(space.received.row(row)[handed_token]);
    return rows.drawn ? *rows.drawn : rows.tokens[std::size_t(i)];
  }

  void hand_on(const ScriptedWorkspace& space, const SequenceRows& rows, int i, int row,
               int out) const {
    const std::uint64_t hash = hash_of(space, rows, i);
    float* left = space.left.row(out);
    left[handed_token] = float(context_token(*space.pool, rows, rows.start + i));
    left[handed_digest] = float(digest(digest_before(space, row), hash));
    write_hash(left, hash);
  }

  /// Returns the context's hash, or another one if shards differ in the context.
  std::uint64_t hash_of(const ScriptedWorkspace& space, const SequenceRows& rows, int i) const {
    return hash_context(options_, context_of(*space.pool, rows, i)) +
           differing_shards(space, rows, i);
  }

  /// Counts shards that have another context in their pages than the first.
  std::uint64_t differing_shards(const ScriptedWorkspace& space, const SequenceRows& rows,
                                 int i) const {
    std::uint64_t differing = 0;
    for (int shard = 1; shard < info_.shards; ++shard)
      differing +=
          context_of(space.pool->shard(shard), rows, i) != context_of(*space.pool, rows, i);
    return differing;
  }

  std::uint32_t digest_before(const ScriptedWorkspace& space, int row) const {
    return layers_.first > 0 ? std::uint32_t(space.received.row(row)[handed_digest]) : 0;
  }

  static std::byte* slot(const gpu::KvPool& pool, const SequenceRows& rows, int position) {
    const int page_tokens = pool.shape().page_tokens;
    const auto page = std::size_t(position / page_tokens);
    assert(page < rows.pages.size());
    return pool.page(rows.pages[page]) + std::size_t(position % page_tokens) * sizeof(TokenId);
  }

  static TokenId context_token(const gpu::KvPool& pool, const SequenceRows& rows, int position) {
    TokenId token = 0;
    std::memcpy(&token, slot(pool, rows, position), sizeof(TokenId));
    return token;
  }

  /// Reads the context back from the cache, row i's token included.
  std::vector<TokenId> context_of(const gpu::KvPool& pool, const SequenceRows& rows, int i) const {
    const int end = rows.start + i + 1;
    std::vector<TokenId> context;
    for (int position = end - std::min(options_.memory, end); position < end; ++position)
      context.push_back(context_token(pool, rows, position));
    return context;
  }

  void write_logits(const ScriptedWorkspace& space, std::uint64_t hash, int row, int out) const {
    const gpu::Tensor logits = space.logits();
    assert(out < logits.rows);
    const std::vector<double> p = row_of(options_, hash + difference(space, hash, row));
    for (std::size_t t = 0; t < p.size(); ++t)
      logits.row(out)[t] =
          p[t] > 0 ? float(std::log(p[t])) : -std::numeric_limits<float>::infinity();
  }

  /// Returns 0 if all stages before this one had the same context in their pages; else a number
  /// that makes the row another model's.
  std::uint32_t difference(const ScriptedWorkspace& space, std::uint64_t hash, int row) const {
    std::uint32_t expected = 0;
    for (int stage = 0; stage < layers_.first; ++stage)
      expected = digest(expected, hash);
    return digest_before(space, row) - expected;
  }

  ScriptedOptions options_;
  std::shared_ptr<gpu::Device> device_;
  LayerRange layers_;
  int all_;
  ModelInfo info_;
};

} // namespace

Result<std::shared_ptr<const Model>> make_scripted(const ScriptedOptions& options,
                                                   std::shared_ptr<gpu::Device> device) {
  return make_scripted_stages(options, {&device, 1}).map([](auto&& models) {
    return std::move(models.front());
  });
}

Result<std::vector<std::shared_ptr<const Model>>>
make_scripted_stages(const ScriptedOptions& options,
                     std::span<const std::shared_ptr<gpu::Device>> devices) {
  std::vector<std::shared_ptr<gpu::Device>> all(devices.begin(), devices.end());
  if (options.recurrent && (all.size() > 1 || !all.front()->shards().empty()))
    return fail(ErrorCode::unsupported, "a recurrent scripted model is not divided",
                "give it one device");
  const auto here = [](const auto& device) { return !device->elsewhere(); };
  const bool tail = devices.back()->elsewhere();
  if (tail)
    all.push_back(*std::ranges::find_if(all.rbegin(), all.rend(), here));
  const int layers = int(devices.size());
  std::vector<std::shared_ptr<const Model>> models;
  for (int i = 0; i < int(all.size()); ++i) {
    auto made = make_scripted_stage(options, {i, int(i < layers), tail && i + 1 == layers}, layers,
                                    all[std::size_t(i)]);
    if (!made)
      return tl::unexpected(made.error());
    models.push_back(std::move(*made));
  }
  return models;
}

Result<std::shared_ptr<const Model>> make_scripted_stage(const ScriptedOptions& options,
                                                         const LayerRange& layers, int all,
                                                         std::shared_ptr<gpu::Device> device) {
  if (auto ok = check_scripted(options); !ok)
    return tl::unexpected(ok.error());
  if (device->name().starts_with("cuda"))
    return fail(ErrorCode::unsupported, "a scripted model cannot run on " + device->name(),
                "use a cpu or sim device");
  auto model = std::make_shared<const ScriptedModel>(options, device, layers, all);
  if (!device->elsewhere())
    return model;
  return std::make_shared<const StageElsewhere>(
      StageElsewhere::Shape{layers, model->kv_shape(1).token_bytes, model->vocabulary(),
                            model->handed_on(), 0, model->leaves_wanted()},
      model->info(), std::move(device));
}

} // namespace paceline::models
