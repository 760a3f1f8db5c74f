// Operations on a team of CPU threads: checks, and the division of the work among ranks.
#pragma once

#include "gpu/cpu/barrier.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/operations.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::gpu::cpu {

/// Elementwise work on one row is divided into runs of this many elements.
inline constexpr int element_run = 512;

inline float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

/// Returns the number of tiles of the shortest run of a product's queue.
int shortest_run(const PackedWeight& w, int rows);

/// The rows of one `verify`, divided among the ranks.
struct Judging {
  struct Item {
    std::size_t task = 0;
    int row = 0;
    bool failed = false;            ///< The row was not a distribution.
    bool inconsistent_draw = false; ///< The token was not the q row's draw.
    sampling::Judgement judged;
    TokenLogprob logprob;
  };
  std::vector<Item> items;
  std::vector<std::atomic<int>> last_row; ///< Last row that counts, by task.

  void begin(std::span<const VerifyTask> tasks);
  /// Combines the results of the rows into those of their tasks.
  void conclude(std::span<VerifyTask> tasks);
};

/// The tiles of one product, which ranks take in runs that grow shorter: a core that the memory
/// serves worse does less, and all finish together. A tile's result does not depend on its rank.
class TileQueue {
public:
  void restart() { next_.store(0, std::memory_order_relaxed); }
  /// Returns the next run, empty when none is left. least: tiles of the shortest run; spare: so
  /// many tiles must be left for others, or none is taken.
  TileRun take(int tiles, int ranks, int least, int spare = 0);

private:
  alignas(64) std::atomic<int> next_{0};
};

/// State that the ranks of one team share.
struct TeamState {
  TeamState(const Kernels& k, int count) : kernels(k), ranks(count), barrier(count) {}
  /// Called before a region.
  void restart() {
    for (TileQueue& queue : tiles)
      queue.restart();
  }
  const Kernels& kernels;
  const int ranks;
  Barrier barrier;
  /// Products alternate: while one empties its queue, no rank looks at the other.
  std::array<TileQueue, 2> tiles;
  Judging judging; ///< Set up and concluded by rank 0.
  Scratch staged;  ///< Inputs of a product with many rows; rank 0 grows it between barriers.
};

/// The operations of one rank; all members are called on that rank's thread.
class CpuOperations final : public Operations {
public:
  CpuOperations(TeamState& team, int rank) : team_(team), rank_(rank) {}
  /// Serves a step in shards. shards: those that this team runs; meeting: where all teams meet,
  /// null if there is only one.
  CpuOperations(TeamState& team, int rank, ShardRange shards, Barrier* meeting)
      : team_(team), rank_(rank), shards_(shards), meeting_(meeting) {}

  /// Called before every region, on every rank.
  void begin() { products_ = 0; }

  int rank() const override { return rank_; }
  int ranks() const override { return team_.ranks; }
  void barrier() override { team_.barrier.arrive_and_wait(); }
  ShardRange shards() const override { return shards_; }
  void meet() override { meeting_ ? meeting_->arrive_and_wait() : barrier(); }
  void sum(Tensor out, std::span<const Tensor> parts, bool add) override;

  void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
             float scale) override;
  void embed_add(Tensor out, const Weight& table, std::span<const std::int32_t> ids) override;
  void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon,
                    float scale) override;
  void layer_norm(Tensor out, Tensor in, const float* weight, const float* bias,
                  float epsilon) override;
  void linear(Tensor out, Tensor in, const Weight& w) override;
  void linear_add(Tensor out, Tensor in, const Weight& w) override;
  void rope_store(Tensor qkv, int heads, const RopeTable& rope, const HeadNorms& norms,
                  const RowMap& rows, const KvLayer& cache) override;
  void attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                 const RowMap& rows, const KvLayer& cache) override;
  void recurrence(Tensor out, Tensor in, Tensor rates, const Recurrence& rule,
                  std::span<const StateRun> runs, const StateLayer& states) override;
  void short_convolution(Tensor out, Tensor in, const ShortConvolution& convolution,
                         std::span<const StateRun> runs, const StateLayer& states) override;
  void gated_rms_norm(Tensor x, Tensor gates, const GatedNorm& norm) override;
  void gate(Tensor out, Tensor in, const Gating& gating) override;
  void activate(Tensor out, Tensor in, Activation activation) override;
  void soft_cap(Tensor x, float cap) override;
  void gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) override;
  void scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) override;
  void gather_columns(Tensor out, Tensor in, const float* columns) override;

  void route(const Routing& routing, Tensor scores, const float* bias,
             const RouterOptions& options) override;
  void expert_linear(Tensor out, Tensor in, RoutedRows order, const Weight& w,
                     const Routing& routing) override;
  void combine(Tensor out, Tensor in, const Routing& routing, bool add) override;
  void spread(Tensor out, Tensor in, const Routing& routing) override;
  void scale_by_sigmoid(Tensor x, Tensor scores) override;

  void copy_pages(const KvPool& pool, std::span<const PageCopy> pages) override;

  void propose(std::span<ProposeTask> tasks) override;
  void verify(std::span<VerifyTask> tasks) override;
  void score(std::span<ScoreTask> tasks) override;

private:
  struct Share {
    int begin;
    int end;
  };
  /// Returns this rank's part of `items`.
  Share share(int items) const;
  /// Calls each(row, first column, columns) for this rank's part of a tensor, in runs of a row, and
  /// waits for the other ranks.
  template <class F>
  void for_runs(Tensor x, const F& each) {
    const int runs = (x.cols + element_run - 1) / element_run;
    const Share items = share(x.rows * runs);
    for (int item = items.begin; item < items.end; ++item) {
      const int first = item % runs * element_run;
      each(item / runs, first, std::min(element_run, x.cols - first));
    }
    barrier();
  }
  const std::byte* stage(Tensor in, const PackedWeight& w);
  void product(Tensor out, Tensor in, const Weight& w, bool add);
  void part_product(Tensor out, Tensor in, const PackedWeight& w, bool add);
  /// Calls each(run) for the runs of the next product's tiles that this rank takes, and waits for
  /// the other ranks. A run is taken while the one before it is multiplied, so that its weights can
  /// be fetched ahead, unless the other ranks would be left without one.
  template <class F>
  void for_runs_of_tiles(int tiles, int least, const F& each) {
    TileQueue& queue = next_queue();
    const auto take = [&](int spare) { return queue.take(tiles, team_.ranks, least, spare); };
    for (TileRun run = take(0); !run.empty();) {
      const TileRun then = take((team_.ranks - 1) * least);
      run.next = then.empty() ? -1 : then.first;
      each(run);
      run = then.empty() ? take(0) : then;
    }
    barrier();
  }
  /// Returns the queue of the tiles of the next product.
  TileQueue& next_queue();
  /// Multiplies staged rows by some tiles of a weight, and adds their bias.
  void multiply(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add);
  /// The tiles of a weight that belong to one expert, which has rows.
  struct ExpertPart {
    const PackedWeight* weight;
    int expert;
    int first_tile; ///< In the weight.
    int column;     ///< Where the first tile's outputs go.
    int begin = 0;  ///< Its tiles among those of all parts: [begin, end).
    int end = 0;
  };
  void list_expert_parts(const PackedWeight& w, int first_output, int outputs,
                         const Routing& routing);
  void stage_expert(Tensor in, RoutedRows order, const ExpertPart& part, const Routing& routing);
  int tile_in(const PackedWeight& w, int tile) const;
  void multiply_expert(Tensor out, const ExpertPart& part, TileRun run, const Routing& routing);
  /// Attends for this rank's share of a sequence's heads with the same `kv`, counted row by row:
  /// whole rows at once, and the parts of rows before and after these by themselves.
  void attend(Tensor out, Tensor q, Share heads, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv);
  void propose_one(ProposeTask& task);
  void judge_row(VerifyTask& task, Judging::Item& item);
  bool warp_row(VerifyTask& task, int row);
  /// Joins both in prefix_.
  std::span<const TokenId> joined(std::span<const TokenId> prefix, std::span<const TokenId> tokens);
  TokenLogprob logprob_of(const VerifyTask& task, int row, TokenId token) const;

  TeamState& team_;
  const int rank_;
  const ShardRange shards_;
  Barrier* const meeting_ = nullptr;
  std::size_t products_ = 0; ///< Number of products in this region.
  Scratch staged_;
  Scratch scratch_; ///< The kernels' scratch.
  std::vector<ExpertPart> expert_parts_;
  Scratch gathered_; ///< Rows of one expert.
  std::vector<float> normed_;
  std::vector<float> embedded_;
  sampling::WarpScratch warp_scratch_;
  std::vector<float> probabilities_;
  std::vector<TokenId> prefix_;
};

} // namespace paceline::gpu::cpu
