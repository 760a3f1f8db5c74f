// Attention over a cache of f32: every product and sum in f32, for models whose weights are f32.
#include "gpu/cuda/attention.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int scores_of_lane = attention_chunk / warp_lanes;

/// The shared memory of a block. dims: a head's, rounded up.
template <int dims>
struct F32Shared {
  float block[attention_chunk][dims + 1]; ///< A chunk's keys, then its values.
  float queries[queries_max][dims];
  float scores[queries_max][attention_chunk]; ///< Scores, then weights.
  Queries q;
};

template <int dims>
class F32Attention {
public:
  __device__ explicit F32Attention(const AttentionCall& call)
      : call_(call), shared_(ptx::shared_memory<F32Shared<dims>>()),
        tile_(call.rows.tiles[blockIdx.x]), seen_(seen_by(call, tile_)),
        pages_(pages_of(call, tile_)), kv_head_(kv_head_of(call)), dim_(call.cache.head_dim) {}

  __device__ void run() {
    const int first = seen_.first / attention_chunk;
    const int last = seen_.last / attention_chunk;
    const int mine = int(blockIdx.z);
    if (call_.parts && (mine < first || mine > last))
      return;
    const int begin_chunk = call_.parts ? mine : first;
    const int end_chunk = call_.parts ? mine + 1 : last + 1;
    if (warp_index() == 0)
      begin(shared_.q, call_);
    __syncthreads();
    load_queries();
    for (int chunk = begin_chunk; chunk < end_chunk; ++chunk) {
      load(chunk, false);
      __syncthreads();
      score(chunk);
      __syncthreads();
      load(chunk, true);
      const bool ends = !call_.parts && ends_group(chunk, end_chunk);
      weigh(ends);
      __syncthreads();
      sum_values(chunk, ends);
      __syncthreads();
    }
    conclude(begin_chunk);
  }

private:
  static constexpr int sums_of_thread = queries_max * dims / attention_threads;

  /// Loads a chunk's keys or values, with zeros for positions that no row sees.
  __device__ void load(int chunk, bool values) {
    for (int i = int(threadIdx.x); i < attention_chunk * dim_; i += attention_threads) {
      const int position = chunk * attention_chunk + i / dim_;
      float value = 0;
      if (position >= seen_.first && position <= seen_.last) {
        const auto* block =
            reinterpret_cast<const float*>(head_block(call_, pages_, kv_head_, position, values));
        value = block[position % call_.cache.page_tokens * dim_ + i % dim_];
      }
      shared_.block[i / dim_][i % dim_] = value;
    }
  }

  __device__ void load_queries() {
    for (int i = int(threadIdx.x); i < queries_max * dim_; i += attention_threads) {
      const int row = shared_.q.row[i / dim_];
      shared_.queries[i / dim_][i % dim_] =
          row < 0 ? 0.0f : call_.qkv.row(row)[shared_.q.head[i / dim_] * dim_ + i % dim_];
    }
  }

  __device__ void score(int chunk) {
    for (int i = int(threadIdx.x); i < queries_max * attention_chunk; i += attention_threads) {
      const int query = i / attention_chunk;
      const int column = i % attention_chunk;
      float product = 0;
      for (int d = 0; d < dim_; ++d)
        product = fmaf(shared_.queries[query][d], shared_.block[column][d], product);
      shared_.scores[query][column] = seen_score(
          shared_.q.seen(query), chunk * attention_chunk + column, product, call_.options);
    }
  }

  /// Turns scores into weights; a warp takes four queries. ends: the chunk ends a group.
  __device__ void weigh(bool ends) {
    for (int i = 0; i < queries_of_warp; ++i) {
      const int query = warp_index() * queries_of_warp + i;
      float scores[scores_of_lane];
      float highest = -INFINITY;
      for (int j = 0; j < scores_of_lane; ++j) {
        scores[j] = shared_.scores[query][lane_index() + j * warp_lanes];
        highest = fmaxf(highest, scores[j]);
      }
      highest = warp_reduce(highest, Max());
      float total = 0;
      for (int j = 0; j < scores_of_lane; ++j) {
        const float weight = scores[j] == -INFINITY ? 0.0f : expf(scores[j] - highest);
        shared_.scores[query][lane_index() + j * warp_lanes] = weight;
        total += weight;
      }
      total = warp_reduce(total, Add());
      if (lane_index() == 0) {
        join_part(shared_.q, query, highest, total);
        if (ends)
          join_group(shared_.q, query);
      }
    }
  }

  /// Sums what a query sees only: a weight of 0 times a value that is not finite would be NaN.
  __device__ void sum_values(int chunk, bool ends) {
    const int begin = chunk * attention_chunk;
#pragma unroll // The sums stay in registers.
    for (int i = 0; i < sums_of_thread; ++i) {
      const int query = (int(threadIdx.x) + i * attention_threads) / dims;
      const int d = (int(threadIdx.x) + i * attention_threads) % dims;
      if (d >= dim_)
        continue;
      float part = 0;
      const int first = shared_.q.first_seen[query] - begin;
      const int last = shared_.q.position[query] - begin;
      for (int p = first > 0 ? first : 0; p <= last && p < attention_chunk; ++p)
        part = fmaf(shared_.scores[query][p], shared_.block[p][d], part);
      sums_.add(i, shared_.q.join[query], part);
      if (ends)
        sums_.add_group(i, shared_.q.join_group[query]);
    }
  }

  __device__ void conclude(int chunk) {
#pragma unroll
    for (int i = 0; i < sums_of_thread; ++i) {
      const int query = (int(threadIdx.x) + i * attention_threads) / dims;
      const int d = (int(threadIdx.x) + i * attention_threads) % dims;
      const int row = shared_.q.row[query];
      const int head = shared_.q.head[query];
      if (row < 0 || d >= dim_)
        continue;
      if (call_.parts)
        call_.part(row, head, chunk)[2 + d] = sums_.group[i];
      else
        call_.write(row, head, d, sums_.all[i] / shared_.q.all_total[query]);
    }
    if (call_.parts && int(threadIdx.x) < queries_max)
      leave_part(call_, shared_.q, int(threadIdx.x), chunk);
  }

  const AttentionCall& call_;
  F32Shared<dims>& shared_;
  const RowTile tile_;
  const Span seen_;
  const std::uint32_t* pages_;
  const int kv_head_;
  const int dim_;
  Sums<sums_of_thread> sums_;
};

template <int dims>
__global__ void __launch_bounds__(attention_threads)
    attend(const __grid_constant__ AttentionCall call) {
  ptx::await_previous();
  F32Attention<dims>(call).run();
}

} // namespace

cudaError_t attend_f32(const Queue& queue, dim3 grid, const AttentionCall& call) {
  return with_head_size<64, 128, head_dim_max>(call.cache.head_dim, [&](auto dims) {
    return launch(queue, grid, attention_threads, sizeof(F32Shared<dims>), attend<dims>, call);
  });
}

} // namespace paceline::gpu::cuda::kernels
