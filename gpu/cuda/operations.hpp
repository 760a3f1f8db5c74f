// Operations on a GPU: checks, the kernels' arguments, and launches, which are recorded and go to
// one stream together when the piece is complete.
#pragma once

#include "gpu/cuda/arguments.hpp"
#include "gpu/cuda/context.hpp"
#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/graphs.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/operations.hpp"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace paceline::gpu::cuda {

/// What a shard gives at a meeting, and takes.
struct Exchange {
  const float* own = nullptr; ///< [count], in its GPU's memory.
  float* all = nullptr;  ///< [shards][count], there, too, where the peers reach it if they can.
  std::size_t count = 0; ///< 0: a meeting without an exchange.
};

/// The operations of one rank; calls enqueue work that runs in their order. They are called on the
/// lane's thread, and throw CudaError, or std::runtime_error if memory runs out.
class CudaOperations final : public Operations {
public:
  /// Makes operations on the current device. sum_peers: GPUs that write to Exchange::all directly.
  CudaOperations(std::shared_ptr<Context> context, cudaStream_t stream, FastPath fast = {},
                 std::set<int> sum_peers = {});

  /// Called before a piece's operations, when no work of an earlier piece of this object runs.
  void begin();
  void launch(); ///< Sends the piece to the stream.
  /// Waits for it, then gives tasks their results. likely: as Pause takes it.
  void finish(std::chrono::steady_clock::duration likely);

  /// These serve a lane of several GPUs, instead of the above: a shard's piece is sent part by
  /// part.
  void begin_shard(int number);
  const std::vector<Exchange>& meetings() const { return meetings_; }
  /// Sends the calls between the meeting before this one and this one; after the last meeting, the
  /// rest.
  void send_part(std::size_t meeting);
  bool is_done() const; ///< Throws if the piece failed.
  void give_results();

  /// Replaces `finish`: waits for all work in the stream, and drops the results.
  void abandon() noexcept;

  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void barrier() override {}
  ShardRange shards() const override { return shards_; }
  /// Lets calls recorded after it run only when the streams of all shards have met.
  void meet() override;
  /// Works on a group's lane only. It brings the other shards' parts here first, at a meeting.
  void sum(Tensor out, std::span<const Tensor> parts, bool add) override;

  void embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
             float scale) override;
  void embed_drawn(Tensor out, const Weight& table, std::span<const TokenId* const> places,
                   float scale) override;
  void embed_add(Tensor out, const Weight& table, std::span<const std::int32_t> ids) override;
  void rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) override;
  void rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon,
                    float scale) override;
  void layer_norm(Tensor out, Tensor in, const float* weight, const float* bias,
                  float epsilon) override;
  void linear(Tensor out, Tensor in, const Weight& w) override;
  void linear_add(Tensor out, Tensor in, const Weight& w) override;
  void linear_fast(Tensor out, Tensor in, const Weight& w, bool add) override;
  void linear_gate(Tensor out, Tensor made, Tensor in, const Weight& w,
                   const Gating& gating) override;
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
  /// A RowMap that was sent in this piece; all layers use the same one.
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
    bool adjusts = false;   ///< Biases, masks or penalties change the logits.
    bool penalises = false; ///< Penalties need counts of tokens.
  };
  class RowScratch;

  /// Returns where an operation's launches go. name: the operation's, for errors.
  Queue queue(const char* name) { return {recording_, name}; }
  void product(Tensor out, Tensor in, const Weight& w, bool add);
  kernels::StagedRows staged_for(Tensor in, const Weight& w);
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
  std::array<DeviceScratch, 2> staged_memory_; ///< The other one for what a product itself stages.
  std::size_t staging_ = 0;                    ///< The one in use.
  DeviceScratch attention_memory_;
  DeviceScratch row_memory_; ///< Distributions, adjusted logits and counts of judged rows.
  DeviceScratch sum_memory_; ///< The shards' parts of a sum.

  bool in_shards_ = false;
  ShardRange shards_;
  std::vector<Exchange> meetings_;
  std::vector<std::size_t> met_; ///< How many calls are recorded before each meeting.

  std::vector<SentRows> sent_rows_;
  /// The tensor whose rows are in the staged memory in use; data is null: none.
  Tensor staged_;
  /// Whether the last product rounded its rows, as the next one probably does; then operations that
  /// make rows stage them.
  bool stages_ = false;
  std::vector<std::function<void()>> results_; ///< Give tasks their results, in this order.
};

} // namespace paceline::gpu::cuda
