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

/// The place of a row's key or value of one head, in a page of a sequence that has it.
class Place {
public:
  __device__ Place(const StoreCall& call, int sequence, int unit, int position)
      : dim_(call.cache.head_dim), code_bytes_(call.cache.code_bytes()), type_(call.cache.type) {
    const Cache& c = call.cache;
    slot_ = position % c.page_tokens;
    is_value_ = unit >= call.heads + c.kv_heads;
    const int kv_head = (unit - call.heads) % c.kv_heads;
    const std::uint32_t page =
        call.rows.pages[call.rows.first_page[sequence] + position / c.page_tokens];
    block_ = c.pages + page * c.page_bytes + (is_value_ ? c.value_offset : c.key_offset) +
             std::size_t(kv_head) * c.block_bytes();
  }

  __device__ bool takes_codes() const { return type_ == KvType::int8; }
  __device__ void store_code(int d, std::int8_t code) const {
    reinterpret_cast<std::int8_t*>(block_)[slot_ * dim_ + d] = code;
  }
  __device__ void store_scale(float scale) const {
    reinterpret_cast<float*>(block_ + code_bytes_)[slot_] = scale;
  }
  __device__ void store(int d, float value) const {
    if (type_ == KvType::f32)
      reinterpret_cast<float*>(block_)[slot_ * dim_ + d] = value;
    else if (is_value_)
      reinterpret_cast<base::bf16*>(block_)[(slot_ / 2 * dim_ + d) * 2 + slot_ % 2] =
          base::to_bf16(value);
    else
      reinterpret_cast<base::bf16*>(block_)[slot_ * dim_ + d] = base::to_bf16(value);
  }

private:
  std::byte* block_;
  int slot_;
  int dim_;
  int code_bytes_;
  KvType type_;
  bool is_value_;
};

/// Stores a key or value as codes, by the warp that has left its numbers in `head`. most: the
/// greatest size (KvScale) of those that this lane has left.
__device__ void store_codes(const Place& place, const float* head, int dim, std::uint32_t most) {
  const KvScale scale(warp_reduce(most, Max()));
  __syncwarp();
  for (int d = lane_index(); d < dim; d += warp_lanes)
    place.store_code(d, scale.code(head[d]));
  if (lane_index() == 0)
    place.store_scale(scale.scale());
}

/// Rotates and stores. Each query, key and value head of a row (its units) has a warp. blockIdx.y:
/// the row. The page and the angles are read before the kernel ahead has made the heads.
__global__ void rotate_and_store(const __grid_constant__ StoreCall call) {
  constexpr int turns_of_lane = head_dim_max / 2 / warp_lanes;
  const int units = call.qkv.cols / call.cache.head_dim;
  const int own = int(blockIdx.x) * store_warps + warp_index();
  const int unit = own < units ? own : 0; // Those that are too many read what the first reads.
  const int row = int(blockIdx.y);
  const int dim = call.cache.head_dim;
  const bool is_query = unit < call.heads;
  const bool turns = unit < call.heads + call.cache.kv_heads;
  const float* norm = !turns ? call.norms.value : is_query ? call.norms.query : call.norms.key;
  const int half = turns ? call.rope.cos.cols : 0;
  const int position = call.rows.position[row];
  const Place place(call, call.rows.sequence[row], is_query ? call.heads : unit, position);
  float cos[turns_of_lane];
  float sin[turns_of_lane];
#pragma unroll
  for (int k = 0; k < turns_of_lane; ++k)
    if (const int i = lane_index() + k * warp_lanes; i < half) {
      cos[k] = call.rope.cos.row(position)[i];
      sin[k] = call.rope.sin.row(position)[i];
    }
  ptx::await_previous();
  if (own >= units)
    return;
  float* head = call.qkv.row(row) + unit * dim;
  float factor = 1;
  if (norm) {
    float squares = 0;
    for (int d = lane_index(); d < dim; d += warp_lanes)
      squares = fmaf(head[d], head[d], squares);
    factor = 1 / sqrtf(warp_reduce(squares, Add()) / float(dim) + call.norms.epsilon);
    __syncwarp(); // Lanes write what others have read.
  }
  const auto normed = [&](int d) { return norm ? head[d] * factor * norm[d] : head[d]; };
  std::uint32_t most = 0;
  const auto leave = [&](int d, float value) {
    head[d] = value;
    if (place.takes_codes())
      most = Max()(most, KvScale::size(value));
    else if (!is_query)
      place.store(d, value);
  };
#pragma unroll
  for (int k = 0; k < turns_of_lane; ++k)
    if (const int i = lane_index() + k * warp_lanes; i < half) {
      const float a = normed(i);
      const float b = normed(i + half);
      leave(i, a * cos[k] - b * sin[k]);
      leave(i + half, b * cos[k] + a * sin[k]);
    }
  for (int d = 2 * half + lane_index(); d < dim; d += warp_lanes)
    leave(d, normed(d));
  if (is_query)
    return;
  if (place.takes_codes())
    store_codes(place, head, dim, most);
  __syncwarp();
  for (int c = 0; c < call.rows.copy_count; ++c) {
    const auto [copied, sequence] = call.rows.copies[c];
    if (copied != row)
      continue;
    const Place other(call, sequence, unit, position);
    if (other.takes_codes())
      store_codes(other, head, dim, most);
    else
      for (int d = lane_index(); d < dim; d += warp_lanes)
        other.store(d, head[d]);
  }
}

constexpr int join_warps = 16;
constexpr int join_threads = join_warps * warp_lanes;
constexpr int join_dims = 4; ///< Dimensions that a lane sums at once.

/// Groups of parts, each joined by a warp.
struct JoinShared {
  float highest[join_warps];
  float total[join_warps];
  float sums[join_warps][head_dim_max];
};

/// Joins `count` parts, at most attention_group, in order, by a warp. What they are to be
/// multiplied by is found for all at once, since the highest score up to each is a scan.
__device__ void join_some(const float* parts, int dim, int count, float& highest_of,
                          float& total_of, float* sums_of) {
  const int lane = lane_index();
  const int stride = dim + 2;
  const bool mine = lane < count;
  const float own = mine ? parts[lane * stride] : -INFINITY;
  const float own_total = mine ? parts[lane * stride + 1] : 0.0f;
  float up_to = own;
  for (int offset = 1; offset < attention_group; offset *= 2) {
    const float other = __shfl_up_sync(all_lanes, up_to, unsigned(offset));
    up_to = lane >= offset ? fmaxf(up_to, other) : up_to;
  }
  const float ahead = __shfl_up_sync(all_lanes, up_to, 1u);
  const Join j = join(lane > 0 ? ahead : -INFINITY, own);
  for (int first = 0; first < dim; first += join_dims * warp_lanes) {
    float values[attention_group][join_dims];
#pragma unroll
    for (int k = 0; k < attention_group; ++k)
#pragma unroll
      for (int i = 0; i < join_dims; ++i) {
        const int d = first + i * warp_lanes + lane;
        values[k][i] = k < count && d < dim ? parts[k * stride + 2 + d] : 0.0f;
      }
    float total = 0;
    float sums[join_dims] = {};
#pragma unroll
    for (int k = 0; k < attention_group; ++k) {
      const Join part{0, from_lane(j.before, k), from_lane(j.part, k)};
      const float part_total = from_lane(own_total, k);
      if (k >= count)
        continue;
      total = joined(part, total, part_total);
#pragma unroll
      for (int i = 0; i < join_dims; ++i)
        sums[i] = joined(part, sums[i], values[k][i]);
    }
#pragma unroll
    for (int i = 0; i < join_dims; ++i)
      if (const int d = first + i * warp_lanes + lane; d < dim)
        sums_of[d] = sums[i];
    if (lane == 0)
      total_of = total;
  }
  const float highest = from_lane(up_to, attention_group - 1);
  if (lane == 0)
    highest_of = highest;
}

/// Joins the parts of each query, a block for a query: a warp joins a group of them, and then a
/// thread of each dimension joins the groups. blockIdx: x: the head, y: the row.
__global__ void __launch_bounds__(join_threads)
    join_parts(const __grid_constant__ AttentionCall call) {
  const int head = int(blockIdx.x);
  const int row = int(blockIdx.y);
  const int d = int(threadIdx.x);
  const int dim = call.cache.head_dim;
  const int position = call.rows.position[row];
  const int first = call.options.first_seen(position) / attention_chunk;
  const int last = position / attention_chunk;
  ptx::await_previous();
  auto& shared = ptx::shared_memory<JoinShared>();
  float highest = call.sink(head);
  float total = highest == -INFINITY ? 0.0f : 1.0f;
  float sum = 0;
  for (int round = first / attention_group; round <= last / attention_group; round += join_warps) {
    const int group = round + warp_index();
    const int begin = group * attention_group > first ? group * attention_group : first;
    const int end =
        (group + 1) * attention_group <= last ? (group + 1) * attention_group : last + 1;
    if (begin < end)
      join_some(call.part(row, head, begin), dim, end - begin, shared.highest[warp_index()],
                shared.total[warp_index()], shared.sums[warp_index()]);
    __syncthreads();
    const int left = last / attention_group - round + 1;
    const int groups = left < join_warps ? left : join_warps;
    for (int g = 0; g < groups; ++g) {
      const Join j = join(highest, shared.highest[g]);
      highest = j.highest;
      total = joined(j, total, shared.total[g]);
      if (d < dim)
        sum = joined(j, sum, shared.sums[g][d]);
    }
    __syncthreads(); // The groups have been read.
  }
  if (d < dim)
    call.write(row, head, d, sum / total);
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
  const dim3 grid(unsigned(divide_up(qkv.cols / cache.head_dim, store_warps)),
                  unsigned(rows.count));
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
                     head_groups(heads, cache.kv_heads),
                     options,
                     rows,
                     cache,
                     reinterpret_cast<float*>(workspace),
                     chunks_of(rows.context),
                     staged};
  if (!split)
    call.parts = nullptr;
  const int groups = cache.kv_heads * call.groups.blocks;
  const dim3 grid(unsigned(rows.tile_count), unsigned(groups), unsigned(split ? call.chunks : 1));
  const auto attend = cache.type == KvType::f32    ? attend_f32
                      : cache.type == KvType::bf16 ? attend_bf16
                                                   : attend_int8;
  if (const cudaError_t failed = attend(queue, grid, call); failed != cudaSuccess || !split)
    return failed;
  const dim3 queries(unsigned(heads), unsigned(rows.count));
  return launch(queue, queries, join_threads, sizeof(JoinShared), join_parts, call);
}

} // namespace paceline::gpu::cuda::kernels
