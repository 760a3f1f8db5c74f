#include "gpu/cuda/operations.hpp"

#include "gpu/cuda/weight.hpp"
#include "gpu/limits.hpp"
#include "gpu/stacked_weight.hpp"
#include "gpu/thread_lane.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace paceline::gpu::cuda {
namespace {

const kernels::PackedWeight& packed(const Weight& w) {
  assert(dynamic_cast<const DeviceWeight*>(&w) && "a weight of another device");
  return static_cast<const DeviceWeight&>(w).packed();
}

/// Returns whether `part` is the first rows of `whole`.
bool begins(const Tensor& whole, const Tensor& part) {
  return whole.data == part.data && whole.rows >= part.rows && whole.cols == part.cols &&
         whole.stride == part.stride;
}

kernels::Cache cache_of(const KvLayer& cache) {
  return kernels::Cache::of(cache.pool->page(0), cache.pool->shape().page_bytes(), cache.layout,
                            cache.layer);
}

/// Returns the longest row's context, rounded up to a power of two of chunks, so that a growing
/// context has the same launches for many rounds.
int rounded_context(const RowMap& map) {
  std::int32_t last = 0;
  for (const std::int32_t position : map.position)
    last = std::max(last, position);
  const auto chunks = unsigned(last / kernels::attention_chunk + 1);
  return int(std::bit_ceil(chunks)) * kernels::attention_chunk;
}

} // namespace

CudaOperations::CudaOperations(std::shared_ptr<Context> context, cudaStream_t stream, FastPath fast,
                               std::set<int> sum_peers)
    : context_(std::move(context)), stream_(stream), fast_(std::move(fast)), done_(make_event()),
      graphs_(*context_), arguments_(context_, recording_), staged_memory_{DeviceScratch(context_),
                                                                           DeviceScratch(context_)},
      attention_memory_(context_), row_memory_(context_),
      sum_memory_(context_, std::move(sum_peers)) {}

void CudaOperations::begin_shard(int number) {
  begin();
  in_shards_ = true;
  shards_ = {number, 1};
}

void CudaOperations::begin() {
  in_shards_ = false;
  shards_ = {};
  meetings_.clear();
  met_.clear();
  recording_.clear();
  arguments_.begin();
  for (DeviceScratch& memory : staged_memory_)
    memory.begin();
  staging_ = 0;
  attention_memory_.begin();
  row_memory_.begin();
  sum_memory_.begin();
  sent_rows_.clear();
  results_.clear();
  staged_ = {};
}

void CudaOperations::launch() {
  graphs_.launch(stream_, recording_);
  PACELINE_CUDA_CHECK(cudaEventRecord(done_.get(), stream_));
}

void CudaOperations::send_part(std::size_t meeting) {
  const std::size_t first = meeting == 0 ? 0 : met_[meeting - 1];
  const bool rest = meeting == met_.size();
  recording_.issue(stream_, first, rest ? recording_.size() : met_[meeting]);
  if (rest)
    PACELINE_CUDA_CHECK(cudaEventRecord(done_.get(), stream_));
}

// Has the only wait of a piece.
void CudaOperations::finish(std::chrono::steady_clock::duration likely) {
  for (Pause pause(likely); !is_done();)
    pause.rest();
  give_results();
}

bool CudaOperations::is_done() const {
  const cudaError_t state = cudaEventQuery(done_.get());
  if (state != cudaSuccess && state != cudaErrorNotReady)
    throw CudaError(state, "what a step enqueued");
  return state == cudaSuccess;
}

void CudaOperations::give_results() {
  for (const auto& give : results_)
    give();
  results_.clear();
}

void CudaOperations::abandon() noexcept {
  (void)cudaStreamSynchronize(stream_);
  results_.clear();
  staged_ = {};
}

void CudaOperations::meet() {
  met_.push_back(recording_.size());
  meetings_.emplace_back();
}

void CudaOperations::sum(Tensor out, std::span<const Tensor> parts, bool add) {
  if (!in_shards_)
    return Operations::sum(out, parts, add); // Throws.
  const Tensor& own = parts[std::size_t(shards_.first)];
  assert(own.stride == own.cols && out.rows == own.rows && out.cols == own.cols);
  if (met_.empty() || met_.back() != recording_.size() || meetings_.back().count > 0)
    meet();
  const std::size_t count = std::size_t(own.rows) * std::size_t(own.cols);
  auto* all = reinterpret_cast<float*>(sum_memory_.at_least(parts.size() * count * sizeof(float)));
  meetings_.back() = {own.data, all, count};
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::sum(queue("sum"), out, all, int(parts.size()), add));
}

void CudaOperations::embed(Tensor out, const Weight& table, std::span<const TokenId> tokens,
                           float scale) {
  assert(out.rows == int(tokens.size()) && out.cols == table.inputs());
  staged_ = {};
  const std::int32_t* ids = arguments_.put(tokens);
  PACELINE_CUDA_CHECK(kernels::embed(queue("embed"), out, packed(table), ids, scale));
}

void CudaOperations::embed_drawn(Tensor out, const Weight& table,
                                 std::span<const TokenId* const> places, float scale) {
  assert(out.rows == int(places.size()) && out.cols == table.inputs());
  staged_ = {};
  const auto* sent = arguments_.put(places);
  PACELINE_CUDA_CHECK(kernels::embed_drawn(queue("embed_drawn"), out, packed(table), sent, scale));
}

void CudaOperations::embed_add(Tensor out, const Weight& table, std::span<const std::int32_t> ids) {
  assert(out.rows == int(ids.size()) && out.cols == table.inputs());
  staged_ = {};
  const std::int32_t* sent = arguments_.put(ids);
  PACELINE_CUDA_CHECK(kernels::embed_add(queue("embed_add"), out, packed(table), sent));
}

// Lets the operation that makes a product's rows stage them along with it.
kernels::StagedRows CudaOperations::stage_with(Tensor out) {
  staged_ = {};
  if (!stages_ || out.rows == 0)
    return {};
  auto* data = staged_memory_[staging_].at_least(kernels::staged_bytes(out.rows, out.cols));
  staged_ = out;
  return {reinterpret_cast<std::uint16_t*>(data)};
}

void CudaOperations::rms_norm(Tensor out, Tensor in, const float* weight, float epsilon) {
  assert(out.rows == in.rows && out.cols == in.cols);
  const kernels::StagedRows staged = stage_with(out);
  PACELINE_CUDA_CHECK(kernels::rms_norm(queue("rms_norm"), out, in, weight, epsilon, staged));
}

void CudaOperations::rms_norm_add(Tensor out, Tensor in, const float* weight, float epsilon,
                                  float scale) {
  assert(out.rows == in.rows && out.cols == in.cols);
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::rms_norm_add(queue("rms_norm"), out, in, weight, epsilon, scale));
}

void CudaOperations::layer_norm(Tensor out, Tensor in, const float* weight, const float* bias,
                                float epsilon) {
  assert(out.rows == in.rows && out.cols == in.cols);
  const kernels::StagedRows staged = stage_with(out);
  PACELINE_CUDA_CHECK(
      kernels::layer_norm(queue("layer_norm"), out, in, weight, bias, epsilon, staged));
}

void CudaOperations::linear(Tensor out, Tensor in, const Weight& w) {
  product(out, in, w, false);
}

void CudaOperations::linear_add(Tensor out, Tensor in, const Weight& w) {
  product(out, in, w, true);
}

void CudaOperations::product(Tensor out, Tensor in, const Weight& w, bool add) {
  assert(out.rows == in.rows && in.cols == w.inputs() && out.cols >= w.outputs());
  if (out.rows == 0)
    return;
  const kernels::StagedRows rows = staged_for(in, w);
  for_each_part(w, [&](const Weight& part, int first) {
    PACELINE_CUDA_CHECK(kernels::linear(queue("linear"), out.columns(first, part.outputs()), in,
                                        rows, packed(part), add));
  });
}

/// Stages the rows of a product, unless the operation that made them has.
kernels::StagedRows CudaOperations::staged_for(Tensor in, const Weight& w) {
  stages_ = w.format() >= WeightFormat::bf16;
  if (!stages_)
    return {};
  const bool there = begins(staged_, in);
  auto* data = staged_memory_[staging_].at_least(kernels::staged_bytes(in.rows, in.cols));
  const kernels::StagedRows rows{reinterpret_cast<std::uint16_t*>(data)};
  if (!there) {
    PACELINE_CUDA_CHECK(kernels::stage(queue("stage"), rows, in));
    staged_ = in;
  }
  return rows;
}

void CudaOperations::linear_fast(Tensor out, Tensor in, const Weight& w, bool add) {
  assert(out.rows == in.rows && in.cols == w.inputs());
  if (!fast_.products)
    return Operations::linear_fast(out, in, w, add); // Throws.
  stages_ = false;                                   // Off until the next product of ours.
  for_each_part(w, [&](const Weight& part, int first) {
    recording_.add(
        LibraryCall("linear_fast", [=, products = fast_.products.get(), &packed = packed(part),
                                    to = out.columns(first, part.outputs()),
                                    scratch = fast_.scratch->data()](cudaStream_t stream) {
          products->multiply(stream, to, in, packed, add, scratch);
        }));
  });
}

void CudaOperations::linear_gate(Tensor out, Tensor made, Tensor in, const Weight& w,
                                 const Gating& gating) {
  const auto* const whole = dynamic_cast<const DeviceWeight*>(&w); // Null: it is stacked.
  if (!whole || out.rows == 0 || !kernels::joins_gate(whole->packed().layout, out.rows))
    return Operations::linear_gate(out, made, in, w, gating);
  assert(out.rows == in.rows && in.cols == w.inputs() && 2 * out.cols == w.outputs());
  const kernels::StagedRows rows = staged_for(in, w);
  staging_ ^= 1; // Some blocks read rows while others stage theirs.
  const kernels::StagedRows staged = stage_with(out);
  PACELINE_CUDA_CHECK(
      kernels::linear_gate(queue("linear_gate"), out, in, rows, whole->packed(), gating, staged));
}

kernels::Rows CudaOperations::send(const RowMap& map, int heads, const KvLayout& layout) {
  for (const SentRows& sent : sent_rows_)
    if (sent.map == &map && sent.rows.count == map.rows() && sent.heads == heads &&
        sent.kv_heads == layout.kv_heads)
      return sent.rows;
  kernels::Rows rows;
  rows.count = map.rows();
  rows.sequence = arguments_.put(std::span(map.sequence));
  rows.position = arguments_.put(std::span(map.position));
  rows.copies = arguments_.put(std::span(map.copies));
  rows.copy_count = int(map.copies.size());
  std::size_t pages = 0;
  const auto first_page = arguments_.take<std::int32_t>(map.pages.size());
  for (std::size_t s = 0; s < map.pages.size(); ++s) {
    first_page[s] = std::int32_t(pages);
    pages += map.pages[s].size();
  }
  const auto table = arguments_.take<std::uint32_t>(pages);
  auto* next = table.host;
  for (const auto& sequence : map.pages)
    next = std::copy(sequence.begin(), sequence.end(), next);
  const auto tiles = kernels::tile_rows_of(map.sequence, heads, layout.kv_heads);
  rows.first_page = first_page.device;
  rows.pages = table.device;
  rows.tiles = arguments_.put(std::span(tiles));
  rows.tile_count = int(tiles.size());
  rows.context = rounded_context(map);
  sent_rows_.push_back({&map, heads, layout.kv_heads, rows});
  return rows;
}

void CudaOperations::rope_store(Tensor qkv, int heads, const RopeTable& rope,
                                const HeadNorms& norms, const RowMap& rows, const KvLayer& cache) {
  assert(qkv.rows == rows.rows() && qkv.cols % cache.layout.head_dim == 0 &&
         (qkv.cols / cache.layout.head_dim == heads ||
          qkv.cols / cache.layout.head_dim == heads + 2 * cache.layout.kv_heads));
  staged_ = {};
  // Tiles, which are attention's, want at least a query for each head of keys.
  const kernels::Rows sent = send(rows, std::max(heads, cache.layout.kv_heads), cache.layout);
  PACELINE_CUDA_CHECK(
      kernels::rope_store(queue("rope_store"), qkv, heads, rope, norms, sent, cache_of(cache)));
}

void CudaOperations::attention(Tensor out, Tensor qkv, int heads, const AttentionOptions& options,
                               const RowMap& rows, const KvLayer& cache) {
  assert(out.rows == rows.rows() && out.cols == heads * cache.layout.head_dim);
  const kernels::Rows sent = send(rows, heads, cache.layout);
  const kernels::Cache pages = cache_of(cache);
  std::byte* workspace = attention_memory_.at_least(
      kernels::attention_workspace(sent.count, sent.tile_count, heads, pages, sent.context));
  staged_ = {};
  const kernels::StagedRows staged =
      out.cols % kernels::step_inputs == 0 ? stage_with(out) : kernels::StagedRows{};
  PACELINE_CUDA_CHECK(kernels::attention(queue("attention"), out, qkv, heads, options, sent, pages,
                                         workspace, staged));
}

void CudaOperations::gate(Tensor out, Tensor in, const Gating& gating) {
  assert(out.rows == in.rows && in.cols == 2 * out.cols);
  const kernels::StagedRows staged = stage_with(out);
  PACELINE_CUDA_CHECK(kernels::gate(queue("gate"), out, in, gating, staged));
}

void CudaOperations::activate(Tensor out, Tensor in, Activation activation) {
  assert(out.rows == in.rows && out.cols == in.cols);
  assert(activation != Activation::clamped_silu);
  const kernels::StagedRows staged = stage_with(out);
  PACELINE_CUDA_CHECK(kernels::activate(queue("activate"), out, in, activation, staged));
}

void CudaOperations::soft_cap(Tensor x, float cap) {
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::soft_cap(queue("soft_cap"), x, cap));
}

void CudaOperations::gather(Tensor out, Tensor in, std::span<const std::int32_t> rows) {
  assert(out.rows == int(rows.size()) && out.cols == in.cols);
  staged_ = {};
  const std::int32_t* sent = arguments_.put(rows);
  PACELINE_CUDA_CHECK(kernels::gather(queue("gather"), out, in, sent));
}

void CudaOperations::scatter(Tensor out, Tensor in, std::span<const std::int32_t> rows) {
  assert(in.rows == int(rows.size()) && out.cols == in.cols);
  staged_ = {};
  const std::int32_t* sent = arguments_.put(rows);
  PACELINE_CUDA_CHECK(kernels::scatter(queue("scatter"), out, in, sent));
}

void CudaOperations::gather_columns(Tensor out, Tensor in, const float* columns) {
  assert(out.rows == in.rows);
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::gather_columns(queue("gather_columns"), out, in, columns));
}

void CudaOperations::route(const Routing& routing, Tensor scores, const float* bias,
                           const RouterOptions& options) {
  assert(scores.rows == routing.rows && scores.cols == routing.experts &&
         routing.top_k <= routing.experts && options.groups <= limits::router_groups_max &&
         routing.experts % options.groups == 0);
  PACELINE_CUDA_CHECK(kernels::route(queue("route"), routing, scores, bias, options));
}

void CudaOperations::expert_linear(Tensor out, Tensor in, RoutedRows order, const Weight& w,
                                   const Routing& routing) {
  assert(out.rows == routing.picks() && in.cols == w.inputs() &&
         out.cols == w.outputs() / routing.experts);
  assert(in.rows == (order == RoutedRows::by_slot ? out.rows : routing.rows));
  if (out.rows == 0)
    return;
  const kernels::StagedRows rows = staged_for(in, w);
  for_each_part(w, [&](const Weight& part, int first) {
    PACELINE_CUDA_CHECK(kernels::expert_linear(queue("expert_linear"), out, in, rows, order,
                                               packed(part), first, routing));
  });
}

void CudaOperations::combine(Tensor out, Tensor in, const Routing& routing, bool add) {
  assert(out.rows == routing.rows && in.rows == routing.picks() && out.cols == in.cols);
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::combine(queue("combine"), out, in, routing, add));
}

void CudaOperations::spread(Tensor out, Tensor in, const Routing& routing) {
  assert(out.rows == routing.rows && in.rows == routing.picks() &&
         out.cols == routing.experts * in.cols);
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::spread(queue("spread"), out, in, routing));
}

void CudaOperations::scale_by_sigmoid(Tensor x, Tensor scores) {
  assert(scores.rows == x.rows && (scores.cols == 1 || scores.cols == x.cols));
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::scale_by_sigmoid(queue("scale_by_sigmoid"), x, scores));
}

namespace {

kernels::States states_in(const StateLayer& states) {
  return {states.of(0), states.layout, states.pool->shape().state_bytes / sizeof(float)};
}

bool leave_snapshots(std::span<const StateRun> runs) {
  return std::ranges::any_of(runs, [](const StateRun& run) { return run.snapshot >= 0; });
}

} // namespace

void CudaOperations::recurrence(Tensor out, Tensor in, Tensor rates, const Recurrence& rule,
                                std::span<const StateRun> runs, const StateLayer& states) {
  assert(out.cols == rule.values() && in.cols == rule.channels() && rates.cols == rule.rates());
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::recurrence(queue("recurrence"), out, in, rates, rule,
                                          arguments_.put(runs), int(runs.size()), states_in(states),
                                          leave_snapshots(runs)));
}

void CudaOperations::short_convolution(Tensor out, Tensor in, const ShortConvolution& convolution,
                                       std::span<const StateRun> runs, const StateLayer& states) {
  assert(out.cols == convolution.channels && in.cols == convolution.row());
  staged_ = {};
  int most = 0;
  for (const StateRun& run : runs)
    most = std::max(most, run.rows);
  PACELINE_CUDA_CHECK(kernels::short_convolution(queue("short_convolution"), out, in, convolution,
                                                 arguments_.put(runs), int(runs.size()), most,
                                                 states_in(states), leave_snapshots(runs)));
}

void CudaOperations::gated_rms_norm(Tensor x, Tensor gates, const GatedNorm& norm) {
  assert(x.rows == gates.rows && x.cols == gates.cols && x.cols % norm.width == 0);
  staged_ = {};
  PACELINE_CUDA_CHECK(kernels::gated_rms_norm(queue("gated_rms_norm"), x, gates, norm));
}

void CudaOperations::copy_pages(const KvPool& pool, std::span<const PageCopy> pages) {
  if (pages.empty())
    return;
  const PageCopy* copies = arguments_.put(pages);
  PACELINE_CUDA_CHECK(kernels::copy_pages(queue("copy_pages"), pool.page(0),
                                          pool.shape().page_bytes(), copies, int(pages.size())));
}

} // namespace paceline::gpu::cuda
