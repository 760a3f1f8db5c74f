// Operations on a team of CPU threads: checks, and the division of the work among ranks.
#pragma once

#include "gpu/cpu/barrier.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/operations.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::gpu::cpu {

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
  std::vector<std::atomic<int>> last_row; ///< By task: nothing behind it counts.

  void begin(std::span<const VerifyTask> tasks);
  /// Results of the rows become those of their tasks.
  void conclude(std::span<VerifyTask> tasks);
};

/// The tiles of one product, which ranks take in runs that grow shorter: whichever core the memory
/// serves worse does less, and all come to the end together. Who computes a tile leaves no mark.
class TileQueue {
public:
  void restart() { next_.store(0, std::memory_order_relaxed); }
  /// The next run [first, last); empty when none is left. least: tiles of the shortest run.
  std::pair<int, int> take(int tiles, int ranks, int least);

private:
  alignas(64) std::atomic<int> next_{0};
};

/// What the ranks of one team share.
struct TeamState {
  TeamState(const Kernels& k, int count) : kernels(k), ranks(count), barrier(count) {}
  /// Before a region.
  void restart() {
    for (TileQueue& queue : tiles)
      queue.restart();
  }
  const Kernels& kernels;
  const int ranks;
  Barrier barrier;
  /// Products take turns: while one empties its queue, nobody looks at the other's.
  std::array<TileQueue, 2> tiles;
  Judging judging; ///< Set up and concluded by rank 0.
  Scratch staged;  ///< Inputs of a product with many rows; grown by rank 0 between barriers.
};

/// One rank's operations. Threads: its rank's.
class CpuOperations final : public Operations {
public:
  CpuOperations(TeamState& team, int rank) : team_(team), rank_(rank) {}
  /// Of a step in shards: those that this team runs, and where all teams meet; null: there is no
  /// other.
  CpuOperations(TeamState& team, int rank, ShardRange shards, Barrier* meeting)
      : team_(team), rank_(rank), shards_(shards), meeting_(meeting) {}

  /// Before every region, on every rank.
  void begin() { products_ = 0; }

  int rank() const override { return rank_; }
  int ranks() const override { return team_.ranks; }
  void barrier() override { team_.barrier.arrive_and_wait(); }
  ShardRange shards() const override { return shards_; }
  void meet() override { meeting_ ? meeting_->arrive_and_wait() : barrier(); }
  void sum(Tensor out, std::span<const Tensor> parts, bool add) override;

  void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
             float scale) override;
  void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void linear(Tensor out, Tensor in, const Weight& w) override;
  void linear_add(Tensor out, Tensor in, const Weight& w) override;
  void rope_store(Tensor qkv, int heads, const RopeTable& rope, const HeadNorms& norms,
                  const RowMap& rows, const KvLayer& cache) override;
  void attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                 const RowMap& rows, const KvLayer& cache) override;
  void gate(Tensor out, Tensor in, Activation activation) override;
  void soft_cap(Tensor x, float cap) override;
  void gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) override;
  void scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) override;
  void gather_columns(Tensor out, Tensor in, const float* columns) override;

  void copy_pages(const KvPool& pool, std::span<const PageCopy> pages) override;

  void propose(std::span<ProposeTask> tasks) override;
  void verify(std::span<VerifyTask> tasks) override;
  void score(std::span<ScoreTask> tasks) override;

private:
  struct Share {
    int begin;
    int end;
  };
  /// This rank's part of `items`.
  Share share(int items) const;
  const std::byte* stage(Tensor in, const PackedWeight& w);
  void product(Tensor out, Tensor in, const Weight& w, bool add);
  /// Of a sequence's heads that share `kv`, counted row by row, those that are this rank's: whole
  /// rows together, the rest of a row before and behind them.
  void attend(Tensor out, Tensor q, Share heads, std::span<const std::int32_t> positions,
              const AttentionOptions& options, const KvHead& kv);
  void propose_one(ProposeTask& task);
  void judge_row(VerifyTask& task, Judging::Item& item);
  bool warp_row(VerifyTask& task, int row);
  /// One behind the other, in prefix_.
  std::span<const TokenId> joined(std::span<const TokenId> prefix, std::span<const TokenId> tokens);
  TokenLogprob logprob_of(const VerifyTask& task, int row, TokenId token) const;

  TeamState& team_;
  const int rank_;
  const ShardRange shards_;
  Barrier* const meeting_ = nullptr;
  std::size_t products_ = 0; ///< In this region.
  Scratch staged_;
  Scratch scratch_; ///< The kernels' own.
  std::vector<float> normed_;
  sampling::WarpScratch warp_scratch_;
  std::vector<float> probabilities_;
  std::vector<TokenId> prefix_;
};

} // namespace paceline::gpu::cpu
