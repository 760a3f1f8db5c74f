// Attention on matrix instructions: scores are queries (operand A) times keys, results are weights
// (operand A) times values. Queries and weights are rounded to bf16. How keys and values of a chunk
// lie in shared memory, and how they come there, is a template's argument (ChunkOf<dims>).
#pragma once

#include "base/bf16.hpp"
#include "gpu/cuda/attention.cuh"

namespace paceline::gpu::cuda::kernels {

inline constexpr int chunk_words =
    attention_chunk / 2; ///< Words in a row of weights, two per word.
inline constexpr int score_tiles = attention_chunk / 8;
inline constexpr int scores_of_lane = attention_chunk / warp_lanes;

/// A row is followed by a few words, so that eight rows are in different banks.
inline constexpr int pad_words = 4;

/// Where a block's keys and values lie, and which of them it reads.
class ChunkSource {
public:
  __device__ ChunkSource(const AttentionCall& call, const Span& seen, const std::uint32_t* pages)
      : cache_(call.cache), seen_(seen), pages_(pages),
        page_share_(~0u / unsigned(call.cache.page_tokens) + 1) {
    const std::byte* block = cache_.pages + std::size_t(kv_head_of(call)) * cache_.block_bytes();
    keys_ = block + cache_.key_offset;
    values_ = block + cache_.value_offset;
  }

  __device__ int head_dim() const { return cache_.head_dim; }
  __device__ int code_bytes() const { return cache_.code_bytes(); }
  __device__ int steps() const { return staged_steps(cache_.head_dim); } ///< Of 16 dimensions.
  __device__ bool seen(int position) const {
    return position >= seen_.first && position <= seen_.last;
  }
  /// Return the slot of a page that `position` has, and set `block` to the keys or values there.
  /// For a position that no query sees they return one that is seen, whose copy brings nothing.
  __device__ int find_key(int position, const std::byte*& block) const {
    return find(position, keys_, block);
  }
  __device__ int find_value(int position, const std::byte*& block) const {
    return find(position, values_, block);
  }
  /// Reads the page's number, so that it is at hand.
  __device__ void touch(int position) const { ptx::touch(pages_ + page_of(position)); }

private:
  /// Returns position / page_tokens, by a product: it is exact as long as position times
  /// page_tokens, which is at least 2, is below 2^32.
  __device__ int page_of(int position) const {
    return int(__umulhi(unsigned(position), page_share_));
  }
  __device__ int find(int position, const std::byte* first, const std::byte*& block) const {
    const int pair = position | 1; // Of which one may be seen.
    const int there = pair < seen_.first      ? seen_.first
                      : position > seen_.last ? seen_.last
                                              : position;
    const int number = page_of(there);
    block = first + pages_[number] * cache_.page_bytes;
    return there - number * cache_.page_tokens;
  }

  const Cache& cache_;
  const Span seen_;
  const std::uint32_t* pages_;
  const unsigned page_share_; ///< 2^32 / page_tokens, rounded up.
  const std::byte* keys_;     ///< The kv head's in the pool's first page.
  const std::byte* values_;
};

/// The shared memory of a block. Chunk: of heads of Chunk::head_dims at most, 32 times a power of
/// two.
template <class Chunk>
struct MatrixShared {
  Chunk chunk;
  std::uint32_t queries[queries_max][Chunk::head_dims / 2 + pad_words];
  int spoilt; ///< Whether a disputed value of the chunk is not finite.
  std::uint32_t weights[queries_max][chunk_words + pad_words];
  float scores[queries_max][attention_chunk + pad_words];
  Queries q;
};

/// Loads operand A of columns 16 step .. + 15 from rows of words.
template <int stride>
__device__ __forceinline__ uint4 operand_a(const std::uint32_t (*rows)[stride], int step) {
  const int g = lane_index() / 4;
  const int t = lane_index() % 4;
  return {rows[g][8 * step + t], rows[g + 8][8 * step + t], rows[g][8 * step + t + 4],
          rows[g + 8][8 * step + t + 4]};
}

/// Positions that some queries of a block see, but not all. A value there that is not finite may
/// only affect those that see it: the others have a weight of 0, and 0 times infinity is NaN.
struct Disputed {
  Span seen;   ///< By any,
  Span by_all; ///< and by all of them.

  __device__ bool at(int position) const {
    return position >= seen.first && position <= seen.last &&
           (position < by_all.first || position > by_all.last);
  }
};

/// split: a block has one chunk, and leaves its parts to join_parts.
template <class Chunk, bool split>
class MatrixAttention {
public:
  __device__ explicit MatrixAttention(const AttentionCall& call)
      : call_(call), shared_(ptx::shared_memory<MatrixShared<Chunk>>()),
        tile_(call.rows.tiles[blockIdx.x]),
        seen_(seen_by(call, tile_)), disputed_{seen_, seen_by_all(call, tile_)},
        source_(call, seen_, pages_of(call, tile_)), queries_(query_count(call, tile_)) {
    if (warp_index() == 0)
      begin(shared_.q, call);
    touch_pages();
  }

  __device__ void run() {
    const int first = seen_.first / attention_chunk;
    const int last = seen_.last / attention_chunk;
    const int mine = int(blockIdx.z);
    if (split && (mine < first || mine > last))
      return;
    const int begin_chunk = split ? mine : first;
    const int end_chunk = split ? mine + 1 : last + 1;
    shared_.chunk.fetch_keys(source_, begin_chunk);
    ptx::commit_copies();
    shared_.chunk.fetch_values(source_, begin_chunk);
    ptx::commit_copies();
    __syncthreads();
    load_queries();
    for (int chunk = begin_chunk; chunk < end_chunk; ++chunk) {
      const bool goes_on = !split && chunk + 1 < end_chunk;
      ptx::wait_for_copies<1>(); // Waits for the keys.
      __syncthreads();
      score(chunk);
      __syncthreads();
      if (goes_on)
        shared_.chunk.fetch_keys(source_, chunk + 1);
      ptx::commit_copies();
      const bool ends = !split && ends_group(chunk, end_chunk);
      weigh(chunk, ends);
      ptx::wait_for_copies<1>(); // Waits for the values.
      __syncthreads();
      sum_values(chunk, ends, Chunk::may_be_infinite && disputes(chunk) && spoilt(chunk));
      if (split)
        break;
      __syncthreads(); // Weights and values have been read, so the next chunk's may come.
      if (goes_on)
        shared_.chunk.fetch_values(source_, chunk + 1);
      ptx::commit_copies();
    }
    conclude(begin_chunk);
  }

private:
  static constexpr int dims = Chunk::head_dims;
  static constexpr int value_tiles = dims / 8 / attention_warps; ///< A warp's tiles, 8 dims each.

  /// Reads the numbers of the pages that the block begins with, so that they are at hand.
  __device__ void touch_pages() const {
    const int chunk = split ? int(blockIdx.z) : seen_.first / attention_chunk;
    const int position = chunk * attention_chunk + int(threadIdx.x);
    if (int(threadIdx.x) < attention_chunk && source_.seen(position))
      source_.touch(position);
  }

  __device__ void load_queries() {
    constexpr int words = dims / 2;
    const int dim = call_.cache.head_dim;
    for (int i = int(threadIdx.x); i < queries_ * words; i += attention_threads) {
      const int query = i / words;
      const int d = i % words * 2;
      std::uint32_t word = 0;
      if (d < dim) {
        const float* from = call_.qkv.row(shared_.q.row[query]) + shared_.q.head[query] * dim + d;
        word = ptx::round_pair(from[0], from[1]);
      }
      shared_.queries[query][i % words] = word;
    }
    // Those that are none have weights of 0 in every chunk, and are numbers.
    for (int i = queries_ * words + int(threadIdx.x); i < queries_max * words;
         i += attention_threads)
      shared_.queries[i / words][i % words] = 0;
    for (int i = queries_ * chunk_words + int(threadIdx.x); i < queries_max * chunk_words;
         i += attention_threads)
      shared_.weights[i / chunk_words][i % chunk_words] = 0;
  }

  /// Computes scores; each warp takes eight positions at a time.
  __device__ void score(int chunk) {
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    const Span seen_by_query[2] = {shared_.q.seen(g), shared_.q.seen(g + 8)};
    constexpr int tiles = score_tiles / attention_warps;
    float sums[tiles][4] = {};
#pragma unroll
    for (int step = 0; step < dims / step_inputs; ++step) {
      if (step >= source_.steps())
        break;
      const uint4 queries = operand_a(shared_.queries, step);
#pragma unroll
      for (int i = 0; i < tiles; ++i)
        ptx::multiply_add(
            sums[i], queries,
            shared_.chunk.key_words((warp_index() + i * attention_warps) * 8 + g, 8 * step + t));
    }
#pragma unroll
    for (int i = 0; i < tiles; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = (warp_index() + i * attention_warps) * 8 + 2 * t + j % 2;
        shared_.scores[g + j / 2 * 8][column] =
            seen_score(seen_by_query[j / 2], chunk * attention_chunk + column,
                       shared_.chunk.product(column, sums[i][j]), call_.options);
      }
  }

  /// Turns scores into weights; a warp takes every fourth query, of those that there are.
  /// ends: the chunk ends a group.
  __device__ void weigh(int chunk, bool ends) {
    for (int query = warp_index(); query < queries_; query += attention_warps) {
      float scores[scores_of_lane]; // Neighbours, which share words.
      float highest = -INFINITY;
      for (int j = 0; j < scores_of_lane; ++j) {
        scores[j] = shared_.scores[query][lane_index() * scores_of_lane + j];
        highest = fmaxf(highest, scores[j]);
      }
      highest = warp_reduce(highest, Max());
      float total = 0;
      for (int j = 0; j < scores_of_lane; ++j) {
        // Positions that the query does not see have weight 0; NaN stays NaN.
        float& s = scores[j];
        if (s == -INFINITY) {
          s = 0;
          continue;
        }
        const float weight = base::round_to_bf16(expf(s - highest));
        total += weight;
        s = shared_.chunk.weight(chunk, lane_index() * scores_of_lane + j, weight);
      }
      total = warp_reduce(total, Add());
      for (int j = 0; j < scores_of_lane; j += 2)
        shared_.weights[query][(lane_index() * scores_of_lane + j) / 2] =
            ptx::round_pair(scores[j], scores[j + 1]);
      if (lane_index() == 0)
        join_queries(query, highest, total, ends);
    }
  }

  __device__ void join_queries(int query, float highest, float total, bool ends) {
    join_part(shared_.q, query, highest, total);
    if (ends)
      join_group(shared_.q, query);
  }

  __device__ bool disputes(int chunk) const {
    const int begin = chunk * attention_chunk;
    const int end = begin + attention_chunk;
    const Span& all = disputed_.by_all;
    return (seen_.first < all.first && begin < all.first) ||
           (seen_.last > all.last && end > all.last + 1);
  }

  /// Returns whether a disputed value of the chunk is not finite. All threads must call it, or
  /// none.
  __device__ bool spoilt(int chunk) {
    if (threadIdx.x == 0)
      shared_.spoilt = 0;
    __syncthreads();
#pragma unroll 1
    for (int row = 0; row < attention_chunk / 2; ++row)
      for (int d = int(threadIdx.x); d < source_.head_dim(); d += attention_threads)
        if (shared_.chunk.value_word(row, d) !=
            finite_word(shared_.chunk, disputed_, chunk, row, d))
          shared_.spoilt = 1;
    __syncthreads();
    return shared_.spoilt != 0;
  }

  static constexpr std::uint32_t exponent = 0x7F80; ///< Exponent bits of bf16; all set: not finite.

  /// Returns row `row` of the chunk's values, positions 2 row and 2 row + 1, with zeros in place of
  /// disputed ones that are not finite.
  __device__ static std::uint32_t finite_word(const Chunk& values, const Disputed& disputed,
                                              int chunk, int row, int d) {
    std::uint32_t word = values.value_word(row, d);
    const int position = chunk * attention_chunk + 2 * row;
    if ((word & exponent) == exponent && disputed.at(position))
      word &= 0xFFFF0000u;
    if ((word >> 16 & exponent) == exponent && disputed.at(position + 1))
      word &= 0xFFFFu;
    return word;
  }

  /// Returns the weighted sum of values that `finite_word` left out, for a query that sees them.
  __device__ static float left_out(const MatrixShared<Chunk>& shared, const Disputed& disputed,
                                   int chunk, int query, int d) {
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < attention_chunk; ++i) {
      const int position = chunk * attention_chunk + i;
      const int shift = i % 2 * 16;
      const std::uint32_t value = shared.chunk.value_word(i / 2, d) >> shift & 0xFFFFu;
      const std::uint32_t weight = shared.weights[query][i / 2] >> shift & 0xFFFFu;
      if (disputed.at(position) && (value & exponent) == exponent &&
          position >= shared.q.first_seen[query] && position <= shared.q.position[query])
        sum += base::to_float(base::bf16{std::uint16_t(weight)}) *
               base::to_float(base::bf16{std::uint16_t(value)});
    }
    return sum;
  }

  struct Products {
    float of[4];
  };
  /// Returns eight dimensions' weighted sums of a chunk that is spoilt. It is rarely called, and
  /// kept out of the code that every block runs through.
  __device__ __noinline__ static Products careful_products(const MatrixShared<Chunk>& shared,
                                                           Disputed disputed, int chunk, int d) {
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    Products part{};
#pragma unroll 1
    for (int step = 0; step < attention_chunk / step_inputs; ++step)
      ptx::multiply_add(part.of, operand_a(shared.weights, step),
                        {finite_word(shared.chunk, disputed, chunk, 8 * step + t, d + g),
                         finite_word(shared.chunk, disputed, chunk, 8 * step + t + 4, d + g)});
    for (int j = 0; j < 4; ++j)
      part.of[j] += left_out(shared, disputed, chunk, g + j / 2 * 8, d + 2 * t + j % 2);
    return part;
  }

  /// Sums weighted values, each warp eight dimensions at a time, and joins them to the sums so far.
  /// careful: the chunk is spoilt.
  __device__ void sum_values(int chunk, bool ends, bool careful) {
    constexpr int steps = attention_chunk / step_inputs;
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    uint4 weights[steps];
#pragma unroll
    for (int step = 0; step < steps; ++step)
      weights[step] = operand_a(shared_.weights, step);
#pragma unroll // The sums stay in registers.
    for (int i = 0; i < value_tiles; ++i) {
      const int d = (warp_index() + i * attention_warps) * 8;
      if (d >= call_.cache.head_dim)
        continue;
      Products part{};
      if (careful)
        part = careful_products(shared_, disputed_, chunk, d);
      else
#pragma unroll
        for (int step = 0; step < steps; ++step)
          ptx::multiply_add(part.of, weights[step],
                            {shared_.chunk.value_word(8 * step + t, d + g),
                             shared_.chunk.value_word(8 * step + t + 4, d + g)});
      for (int j = 0; j < 4; ++j) {
        sums_.add(i * 4 + j, shared_.q.join[g + j / 2 * 8], part.of[j]);
        if (ends)
          sums_.add_group(i * 4 + j, shared_.q.join_group[g + j / 2 * 8]);
      }
    }
  }

  __device__ void conclude(int chunk) {
    const int g = lane_index() / 4;
    const int first = warp_index() * 8 + 2 * (lane_index() % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = g + half * 8;
      const int row = shared_.q.row[query];
      if (row < 0)
        continue;
      const int head = shared_.q.head[query];
#pragma unroll
      for (int i = 0; i < value_tiles; ++i) {
        const int d = first + i * attention_warps * 8;
        if (d >= call_.cache.head_dim)
          continue;
        const int sum = i * 4 + half * 2;
        if constexpr (split) // A head's dimensions are even.
          *reinterpret_cast<float2*>(call_.part(row, head, chunk) + 2 + d) = {sums_.group[sum],
                                                                              sums_.group[sum + 1]};
        else
          for (int j = 0; j < 2; ++j)
            call_.write(row, head, d + j, sums_.all[sum + j] / shared_.q.all_total[query]);
      }
    }
    if (split && int(threadIdx.x) < queries_max)
      leave_part(call_, shared_.q, int(threadIdx.x), chunk);
  }

  const AttentionCall& call_;
  MatrixShared<Chunk>& shared_;
  const RowTile tile_;
  const Span seen_;
  const Disputed disputed_;
  const ChunkSource source_;
  const int queries_;          ///< That there are; the others are none.
  Sums<value_tiles * 4> sums_; ///< [tile][element of the instruction's result]
};

template <class Chunk, bool split>
__global__ void __launch_bounds__(attention_threads)
    attend(const __grid_constant__ AttentionCall call) {
  // The places of rows and pages are arguments, so they are read before the kernel ahead has ended.
  MatrixAttention<Chunk, split> attention(call);
  ptx::await_previous();
  attention.run();
}

/// Launches attention over chunks of the smallest size that holds a head.
template <template <int dims> class ChunkOf>
cudaError_t attend_by_matrices(const Queue& queue, dim3 grid, const AttentionCall& call) {
  return with_head_size<32, 64, 128, head_dim_max>(call.cache.head_dim, [&](auto dims) {
    using Chunk = ChunkOf<dims>;
    return launch(queue, grid, attention_threads, sizeof(MatrixShared<Chunk>),
                  call.parts ? attend<Chunk, true> : attend<Chunk, false>, call);
  });
}

} // namespace paceline::gpu::cuda::kernels
