// Rotation, storing to the cache, and attention's two steps: parts of the context, and their
// joining.
#include "gpu/cuda/attention.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int store_warps = 4;
/// Number of blocks below which chunks get blocks of their own. Results are the same bits either
/// way, so the number may be any.
constexpr int blocks_wanted = 256;

struct StoreCall {
  Tensor qkv;
  int heads;
  RopeTable rope;
  HeadNorms norms;
  Rows rows;
  Cache cache;

  bool operator==(const StoreCall&) const = default;
};

/// Stores one element of a key or value.
__device__ void store(const StoreCall& call, int row, int unit, int d, float value) {
  const Cache& c = call.cache;
  const int position = call.rows.position[row];
  const int slot = position % c.page_tokens;
  const bool is_value = unit >= call.heads + c.kv_heads;
  const int kv_head = (unit - call.heads) % c.kv_heads;
  const std::uint32_t page =
      call.rows.pages[call.rows.first_page[call.rows.sequence[row]] + position / c.page_tokens];
  std::byte* block = c.pages + page * c.page_bytes + (is_value ? c.value_offset : c.key_offset) +
                     std::size_t(kv_head) * std::size_t(c.page_tokens) * std::size_t(c.head_dim) *
                         size_of(c.dtype);
  if (c.dtype == DType::f32)
    reinterpret_cast<float*>(block)[slot * c.head_dim + d] = value;
  else if (is_value)
    reinterpret_cast<base::bf16*>(block)[(slot / 2 * c.head_dim + d) * 2 + slot % 2] =
        base::to_bf16(value);
  else
    reinterpret_cast<base::bf16*>(block)[slot * c.head_dim + d] = base::to_bf16(value);
}

/// Rotates and stores. Each query, key and value head of a row (its units) has a warp. blockIdx.y:
/// the row.
__global__ void rotate_and_store(const __grid_constant__ StoreCall call) {
  ptx::await_previous();
  const int unit = int(blockIdx.x) * store_warps + warp_index();
  const int row = int(blockIdx.y);
  const int dim = call.cache.head_dim;
  const bool is_query = unit < call.heads;
  if (unit >= call.heads + 2 * call.cache.kv_heads)
    return;
  float* head = call.qkv.row(row) + unit * dim;
  const bool turns = unit < call.heads + call.cache.kv_heads;
  const float* norm = !turns ? nullptr : is_query ? call.norms.query : call.norms.key;
  float factor = 1;
  if (norm) {
    float squares = 0;
    for (int d = lane_index(); d < dim; d += warp_lanes)
      squares = fmaf(head[d], head[d], squares);
    factor = 1 / sqrtf(warp_reduce(squares, Add()) / float(dim) + call.norms.epsilon);
  }
  const auto normed = [&](int d) { return norm ? head[d] * factor * norm[d] : head[d]; };
  const auto leave = [&](int d, float value) {
    head[d] = value;
    if (!is_query)
      store(call, row, unit, d, value);
  };
  const int half = turns ? call.rope.cos.cols : 0;
  const int position = call.rows.position[row];
  for (int i = lane_index(); i < half; i += warp_lanes) {
    const float cos = call.rope.cos.row(position)[i];
    const float sin = call.rope.sin.row(position)[i];
    const float a = normed(i);
    const float b = normed(i + half);
    leave(i, a * cos - b * sin);
    leave(i + half, b * cos + a * sin);
  }
  for (int d = 2 * half + lane_index(); d < dim; d += warp_lanes)
    leave(d, normed(d));
}

constexpr int join_threads = 128;
constexpr int join_dims = head_dim_max / join_threads; ///< Dimensions of a thread.
constexpr int joins_at_once = 512; ///< Parts whose factors are in shared memory.
constexpr int parts_ahead = 16;    ///< Parts that a thread reads at once.

struct JoinShared {
  float highest[joins_at_once]; ///< A part's, then that of all parts up to it.
  float before[joins_at_once];  ///< Factor of the sums before a part.
  float part[joins_at_once];    ///< Factor of the part's.
  float warps[join_threads / warp_lanes];
};

/// Sets shared.highest[i] to the highest score of the parts up to i, `before` among them.
__device__ void scan_highest(JoinShared& shared, const float* parts, int stride, int count,
                             float before) {
  const int thread = int(threadIdx.x);
  constexpr int each = joins_at_once / join_threads;
  float own[each];
  float most = -INFINITY;
#pragma unroll
  for (int k = 0; k < each; ++k) { // A thread has neighbours.
    const int i = thread * each + k;
    most = fmaxf(most, i < count ? parts[i * stride] : -INFINITY);
    own[k] = most;
  }
  float up_to = most;
  for (int offset = 1; offset < warp_lanes; offset *= 2) {
    const float other = __shfl_up_sync(all_lanes, up_to, unsigned(offset));
    if (lane_index() >= offset)
      up_to = fmaxf(up_to, other);
  }
  if (lane_index() == warp_lanes - 1)
    shared.warps[warp_index()] = up_to;
  float ahead = __shfl_up_sync(all_lanes, up_to, 1u);
  ahead = lane_index() > 0 ? fmaxf(ahead, before) : before;
  __syncthreads();
  for (int w = 0; w < warp_index(); ++w)
    ahead = fmaxf(ahead, shared.warps[w]);
#pragma unroll
  for (int k = 0; k < each; ++k)
    shared.highest[thread * each + k] = fmaxf(own[k], ahead);
  __syncthreads();
}

/// Joins the parts of each query in their order, a block for a query; a thread has dimensions. What
/// the factors of the parts are is found for many parts at once: the highest score up to each is a
/// scan, and everything else follows from that. blockIdx: x: the head, y: the row.
__global__ void __launch_bounds__(join_threads)
    join_parts(const __grid_constant__ AttentionCall call) {
  ptx::await_previous();
  auto& shared = ptx::shared_memory<JoinShared>();
  const int head = int(blockIdx.x);
  const int row = int(blockIdx.y);
  const int thread = int(threadIdx.x);
  const int dim = call.cache.head_dim;
  const int position = call.rows.position[row];
  const int last = position / attention_chunk;
  float highest = -INFINITY;
  float total = 0;
  float sums[join_dims] = {};
  for (int first = call.options.first_seen(position) / attention_chunk; first <= last;
       first += joins_at_once) {
    const int left = last + 1 - first;
    const int count = left < joins_at_once ? left : joins_at_once;
    const float* parts = call.part(row, head, first);
    const int stride = dim + 2;
    scan_highest(shared, parts, stride, count, highest);
    for (int i = thread; i < count; i += join_threads) {
      const Join j = join(i > 0 ? shared.highest[i - 1] : highest, parts[i * stride]);
      shared.before[i] = j.before;
      shared.part[i] = j.part;
    }
    __syncthreads();
    highest = shared.highest[count - 1];
    for (int begin = 0; begin < count; begin += parts_ahead) {
      float values[join_dims][parts_ahead];
      float totals[parts_ahead];
#pragma unroll
      for (int k = 0; k < parts_ahead; ++k) {
        const bool there = begin + k < count;
        const float* part = parts + (begin + k) * stride;
        totals[k] = there ? part[1] : 0.0f;
#pragma unroll
        for (int d = 0; d < join_dims; ++d)
          values[d][k] =
              there && thread + d * join_threads < dim ? part[2 + thread + d * join_threads] : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < parts_ahead; ++k) {
        if (begin + k >= count)
          break;
        const Join j{0, shared.before[begin + k], shared.part[begin + k]};
        total = joined(j, total, totals[k]);
#pragma unroll
        for (int d = 0; d < join_dims; ++d)
          sums[d] = joined(j, sums[d], values[d][k]);
      }
    }
    __syncthreads(); // The factors have been read.
  }
  for (int d = 0; d < join_dims; ++d)
    if (thread + d * join_threads < dim)
      call.write(row, head, thread + d * join_threads, sums[d] / total);
}

int blocks_of(int tiles, int heads, const Cache& cache) {
  return tiles * cache.kv_heads * head_groups(heads, cache.kv_heads).blocks;
}

int chunks_of(int context) {
  return divide_up(context, attention_chunk);
}

bool splits(int tiles, int heads, const Cache& cache, int context) {
  return chunks_of(context) > 1 && blocks_of(tiles, heads, cache) < blocks_wanted;
}

} // namespace

cudaError_t rope_store(const Queue& queue, Tensor qkv, int heads, const RopeTable& rope,
                       const HeadNorms& norms, const Rows& rows, const Cache& cache) {
  const int units = heads + 2 * cache.kv_heads;
  const dim3 grid(unsigned(divide_up(units, store_warps)), unsigned(rows.count));
  return launch(queue, grid, store_warps * warp_lanes, 0, rotate_and_store,
                StoreCall{qkv, heads, rope, norms, rows, cache});
}

std::size_t attention_workspace(int rows, int tiles, int heads, const Cache& cache, int context) {
  if (!splits(tiles, heads, cache, context))
    return 0;
  return std::size_t(rows) * std::size_t(heads) * std::size_t(chunks_of(context)) *
         std::size_t(cache.head_dim + 2) * sizeof(float);
}

cudaError_t attention(const Queue& queue, Tensor out, Tensor qkv, int heads,
                      const AttentionOptions& options, const Rows& rows, const Cache& cache,
                      std::byte* workspace, StagedRows staged) {
  if (cache.head_dim > head_dim_max || cache.head_dim % head_dim_step != 0 ||
      heads % cache.kv_heads != 0)
    return cudaErrorInvalidValue;
  const bool split = splits(rows.tile_count, heads, cache, rows.context);
  AttentionCall call{out,
                     qkv,
                     heads,
                     options,
                     rows,
                     cache,
                     reinterpret_cast<float*>(workspace),
                     chunks_of(rows.context),
                     staged};
  if (!split)
    call.parts = nullptr;
  const int groups = cache.kv_heads * head_groups(heads, cache.kv_heads).blocks;
  const dim3 grid(unsigned(rows.tile_count), unsigned(groups), unsigned(split ? call.chunks : 1));
  const auto attend = cache.dtype == DType::f32 ? attend_f32 : attend_bf16;
  if (const cudaError_t failed = attend(queue, grid, call); failed != cudaSuccess || !split)
    return failed;
  const dim3 queries(unsigned(heads), unsigned(rows.count));
  return launch(queue, queries, join_threads, sizeof(JoinShared), join_parts, call);
}

} // namespace paceline::gpu::cuda::kernels
