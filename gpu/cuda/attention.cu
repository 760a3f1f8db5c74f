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

/// Joins the parts of each query in order, one warp per query. blockIdx.y: the row.
__global__ void join_parts(const __grid_constant__ AttentionCall call) {
  const int head = int(blockIdx.x) * store_warps + warp_index();
  const int row = int(blockIdx.y);
  if (head >= call.heads)
    return;
  const int position = call.rows.position[row];
  const int first = call.options.first_seen(position) / attention_chunk;
  const int last = position / attention_chunk;
  constexpr int sums_of_lane = head_dim_max / warp_lanes;
  float highest = -INFINITY;
  float total = 0;
  float sums[sums_of_lane] = {};
  for (int chunk = first; chunk <= last; ++chunk) {
    const float* part = call.part(row, head, chunk);
    const Join j = join(highest, part[0]);
    highest = j.highest;
    total = joined(j, total, part[1]);
    for (int i = 0; i < sums_of_lane; ++i)
      if (const int d = lane_index() + i * warp_lanes; d < call.cache.head_dim)
        sums[i] = joined(j, sums[i], part[2 + d]);
  }
  for (int i = 0; i < sums_of_lane; ++i)
    if (const int d = lane_index() + i * warp_lanes; d < call.cache.head_dim)
      call.write(row, head, d, sums[i] / total);
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
  const dim3 queries(unsigned(divide_up(heads, store_warps)), unsigned(rows.count));
  return launch(queue, queries, store_warps * warp_lanes, 0, join_parts, call);
}

} // namespace paceline::gpu::cuda::kernels
