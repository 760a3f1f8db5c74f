// Operations on a GPU: checks, what kernels have to be told, and their launches, which are recorded
// and go to one stream together, when the piece is whole.
#pragma once

#include "gpu/cuda/arguments.hpp"
#include "gpu/cuda/context.hpp"
#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/graphs.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/operations.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace paceline::gpu::cuda {

/// What a shard gives at a meeting, and takes.
struct Exchange {
  const float* own = nullptr; ///< [count], in its GPU's memory.
  float* all = nullptr;  ///< [shards][count], there, too, where the GPUs reach it that were named.
  std::size_t count = 0; ///< 0: they meet, and that is all.
};

/// One rank; what calls enqueue runs in their order. Threads: the lane's. All operations
/// throw CudaError, or std::runtime_error where memory runs out.
class CudaOperations final : public Operations {
public:
  /// Of the current device. sum_peers: GPUs that write to Exchange::all by themselves.
  CudaOperations(std::shared_ptr<Context> context, cudaStream_t stream, FastPath fast = {},
                 std::set<int> sum_peers = {});

  /// Before a piece's operations; nothing of an earlier piece is at work.
  void begin();
  void launch(); ///< Sends the piece to the stream.
  void finish(); ///< Waits for it, then gives tasks their results.

  /// Of a lane of several GPUs, instead of these: a shard's piece is sent part by part.
  void begin_shard(int number);
  const std::vector<Exchange>& meetings() const { return meetings_; }
  /// What comes before a meeting and behind the one before it; behind the last one that is the
  /// rest.
  void send_part(std::size_t meeting);
  bool is_done() const; ///< Throws where it failed.
  void give_results();

  /// Instead of `finish`: waits for all that is in the stream, and drops the results.
  void abandon() noexcept;

  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void barrier() override {}
  ShardRange shards() const override { return shards_; }
  /// What is recorded behind it is enqueued when all shards' streams are ordered.
  void meet() override;
  /// Of a group's lane. What the others add is brought here first, where they meet.
  void sum(Tensor out, std::span<const Tensor> parts, bool add) override;

  void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
             float scale) override;
  void embed_drawn(Tensor out, const Weight& table, std::span<const TokenId* const> places,
                   float scale) override;
  void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void linear(Tensor out, Tensor in, const Weight& w) override;
  void linear_add(Tensor out, Tensor in, const Weight& w) override;
  void linear_fast(Tensor out, Tensor in, const Weight& w, bool add) override;
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
  /// A RowMap as it was sent in this piece; layer after layer takes the same.
  struct SentRows {
    const RowMap* map = nullptr;
    int heads = 0;
    int kv_heads = 0;
    kernels::Rows rows;
  };
  /// What the rows of one task have in common, in the GPU's memory.
  struct SentTask {
    kernels::Warping warping;
    kernels::History history;
    bool adjusts = false;   ///< Biases, masks or penalties change its logits,
    bool penalises = false; ///< which wants counts of tokens.
  };
  class RowScratch;

  /// Where an operation's launches go. name: of the operation, for errors.
  Queue queue(const char* name) { return {recording_, name}; }
  void product(Tensor out, Tensor in, const Weight& w, bool add);
  kernels::StagedRows stage_with(Tensor out);
  kernels::Rows send(const RowMap& rows, int heads, const KvLayout& layout);
  SentTask send(const sampling::Warping& warping, const sampling::History& history, int vocabulary);
  void constrain(kernels::Warping& row, const sampling::Warping& warping,
                 const sampling::History& history, int vocabulary);

  std::shared_ptr<Context> context_;
  cudaStream_t stream_;
  FastPath fast_;
  Event done_;
  Recording recording_; ///< The piece so far.
  Graphs graphs_;
  Arguments arguments_;
  DeviceScratch staged_memory_;
  DeviceScratch attention_memory_;
  DeviceScratch row_memory_; ///< Distributions, adjusted logits and counts of judged rows.
  DeviceScratch sum_memory_; ///< What shards add to a sum.

  bool in_shards_ = false;
  ShardRange shards_;
  std::vector<Exchange> meetings_;
  std::vector<std::size_t> met_; ///< How many calls are recorded before each.

  std::vector<SentRows> sent_rows_;
  /// The tensor whose rows are in staged_memory_; data is null: none.
  Tensor staged_;
  /// Whether the last product rounded its rows, as the next one will: then who makes rows stages
  /// them.
  bool stages_ = false;
  std::vector<std::function<void()>> results_; ///< To be given to tasks, in this order.
};

} // namespace paceline::gpu::cuda
