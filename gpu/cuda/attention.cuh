// Common parts of the attention kernels: (paged) attention split along the context as in
// Flash-Decoding (Dao et al. 2023), with softmax parts joined as in FlashAttention (Dao et al.
// 2022).
//
// A block takes up to 16 queries of one sequence that share a kv head: rows of a tile times heads
// of a group. Positions are taken in chunks of attention_chunk, counted from 0. Each chunk by
// itself gives a query its highest score, the sum of its weights and the sum of its weighted
// values; these parts are joined in the order of the chunks, those of a group of chunks first, then
// the groups. If there are few blocks, every chunk has a block, which writes its parts to memory,
// and a second kernel joins them; otherwise a block goes through all chunks and joins on the way.
// Both ways have the same arithmetic and give the same bits. A chunk of which a query sees nothing
// leaves the query unchanged.
#pragma once

#include "base/bf16.hpp"
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace paceline::gpu::cuda::kernels {

inline constexpr int attention_warps = 4;
inline constexpr int attention_threads = attention_warps * warp_lanes;
inline constexpr int queries_of_warp = queries_max / attention_warps;

/// Calls launch(the smallest of these sizes that holds a head, as a constant). The last holds all.
template <int dims, int... larger, class Launch>
cudaError_t with_head_size(int head_dim, const Launch& launch) {
  if constexpr (sizeof...(larger) > 0) {
    if (head_dim > dims)
      return with_head_size<larger...>(head_dim, launch);
  }
  return launch(std::integral_constant<int, dims>());
}

struct AttentionCall {
  Tensor out;
  Tensor qkv;
  int heads;
  HeadGroups groups;
  AttentionOptions options;
  Rows rows;
  Cache cache;
  float* parts; ///< Null: blocks join on the way; else [row][head][chunk][head_dim + 2].
  int chunks;   ///< Chunks of the longest context.
  StagedRows staged;

  __device__ float* part(int row, int head, int chunk) const {
    const std::size_t at =
        (std::size_t(row) * std::size_t(heads) + std::size_t(head)) * std::size_t(chunks) +
        std::size_t(chunk);
    return parts + at * std::size_t(cache.head_dim + 2);
  }
  /// Returns the score that a head begins with, before it has seen a position; -infinity: none.
  __device__ float sink(int head) const { return options.sinks ? options.sinks[head] : -INFINITY; }
  __device__ void write(int row, int head, int d, float value) const {
    const int column = head * cache.head_dim + d;
    out.row(row)[column] = value;
    stage_number(staged, out.cols, row, column, value);
  }
  bool operator==(const AttentionCall&) const = default;
};

/// How a part is joined to those before it.
struct Join {
  float highest;
  float before; ///< Factor of the parts before.
  float part;   ///< Factor of the part.
};
__device__ __forceinline__ Join join(float highest, float part_highest) {
  if (part_highest == -INFINITY)
    return {highest, 1, 0};
  if (highest == -INFINITY)
    return {part_highest, 0, 1};
  const float both = fmaxf(highest, part_highest);
  return {both, expf(highest - both), expf(part_highest - both)};
}
__device__ __forceinline__ float joined(const Join& j, float before, float part) {
  return before * j.before + part * j.part;
}

/// Positions [first, last].
struct Span {
  int first;
  int last;
};

/// The queries of a block, and their progress.
struct Queries {
  int row[queries_max]; ///< -1: none.
  int head[queries_max];
  int position[queries_max];
  int first_seen[queries_max];
  float highest[queries_max]; ///< Highest score of the group's chunks so far.
  float total[queries_max];
  Join join[queries_max];         ///< How the last chunk was joined.
  float all_highest[queries_max]; ///< Highest score of the groups so far.
  float all_total[queries_max];
  Join join_group[queries_max]; ///< How the last group was joined.

  __device__ __forceinline__ Span seen(int i) const { return {first_seen[i], position[i]}; }
};

/// Returns whether a block that joins on the way joins a group behind this chunk.
__device__ __forceinline__ bool ends_group(int chunk, int end_chunk) {
  return (chunk + 1) % attention_group == 0 || chunk + 1 == end_chunk;
}

/// A thread's weighted sums: those of the group's chunks so far, and of the groups so far.
template <int count>
struct Sums {
  float group[count] = {};
  float all[count] = {};

  __device__ __forceinline__ void add(int i, const Join& j, float part) {
    group[i] = joined(j, group[i], part);
  }
  __device__ __forceinline__ void add_group(int i, const Join& j) {
    all[i] = joined(j, all[i], group[i]);
    group[i] = 0;
  }
};

/// Returns the kv head of a block, whose blockIdx.y counts kv heads and the parts of their groups.
__device__ __forceinline__ int kv_head_of(const AttentionCall& call) {
  return call.groups.blocks == 1 ? int(blockIdx.y) : int(blockIdx.y) / call.groups.blocks;
}

/// Returns the number of a block's queries, which are its first ones.
__device__ __forceinline__ int query_count(const AttentionCall& call, const RowTile& tile) {
  const HeadGroups& groups = call.groups;
  const int part = int(blockIdx.y) - kv_head_of(call) * groups.blocks;
  const int left = groups.group - part * groups.heads;
  return tile.count * (left < groups.heads ? left : groups.heads);
}

/// Sets up the queries; called by one warp. blockIdx.x: the tile; blockIdx.y: kv head and part of
/// its group.
__device__ inline void begin(Queries& q, const AttentionCall& call) {
  const HeadGroups& groups = call.groups;
  const RowTile tile = call.rows.tiles[blockIdx.x];
  const int kv_head = kv_head_of(call);
  const int first_head = (int(blockIdx.y) - kv_head * groups.blocks) * groups.heads;
  const int i = lane_index();
  if (i >= queries_max)
    return;
  const int row = i / groups.heads;
  const int head = first_head + i % groups.heads;
  const bool there = row < tile.count && head < groups.group;
  q.row[i] = there ? tile.first + row : -1;
  q.join[i] = q.join_group[i] = {0, 1, 0}; // Those that are none are joined, too.
  q.head[i] = there ? kv_head * groups.group + head : 0;
  q.position[i] = there ? call.rows.position[tile.first + row] : -1;
  q.first_seen[i] = there ? call.options.first_seen(q.position[i]) : 0;
  q.highest[i] = -INFINITY;
  q.total[i] = 0;
  q.all_highest[i] = there ? call.sink(q.head[i]) : -INFINITY;
  q.all_total[i] = q.all_highest[i] == -INFINITY ? 0.0f : 1.0f;
}

/// Joins a chunk's highest score and its sum of weights to query i's. If the seen scores are all
/// NaN, the total becomes NaN.
__device__ __forceinline__ void join_part(Queries& q, int i, float highest, float total) {
  const bool nothing = highest == -INFINITY && total == total;
  const Join j = join(q.highest[i], !nothing && highest == -INFINITY ? 0.0f : highest);
  q.total[i] = joined(j, q.total[i], total);
  q.highest[i] = j.highest;
  q.join[i] = j;
}

/// Joins the group's sums to query i's, and begins a new group.
__device__ __forceinline__ void join_group(Queries& q, int i) {
  const Join j = join(q.all_highest[i], q.highest[i]);
  q.all_total[i] = joined(j, q.all_total[i], q.total[i]);
  q.all_highest[i] = j.highest;
  q.join_group[i] = j;
  q.highest[i] = -INFINITY;
  q.total[i] = 0;
}

/// Returns the positions that a tile sees.
__device__ inline Span seen_by(const AttentionCall& call, const RowTile& tile) {
  const std::int32_t* position = call.rows.position + tile.first; // Ascending.
  return {call.options.first_seen(position[0]), position[tile.count - 1]};
}

/// Returns positions [first, last] that every row of a tile sees; may be empty.
__device__ inline Span seen_by_all(const AttentionCall& call, const RowTile& tile) {
  const std::int32_t* position = call.rows.position + tile.first;
  return {call.options.first_seen(position[tile.count - 1]), position[0]};
}

/// Returns a score for the softmax; -infinity if the query does not see the position.
__device__ __forceinline__ float seen_score(const Span& seen, int position, float product,
                                            const AttentionOptions& options) {
  if (position < seen.first || position > seen.last)
    return -INFINITY;
  const float score = product * options.scale;
  return options.soft_cap > 0 ? options.soft_cap * tanhf(score / options.soft_cap) : score;
}

/// Returns the address of a head's block in the page of `position`: of its values, or of its keys.
__device__ __forceinline__ const std::byte* head_block(const AttentionCall& call,
                                                       const std::uint32_t* pages, int kv_head,
                                                       int position, bool values) {
  const Cache& c = call.cache;
  return c.pages + pages[position / c.page_tokens] * c.page_bytes +
         (values ? c.value_offset : c.key_offset) + std::size_t(kv_head) * c.block_bytes();
}

__device__ __forceinline__ const std::uint32_t* pages_of(const AttentionCall& call,
                                                         const RowTile& tile) {
  return call.rows.pages + call.rows.first_page[call.rows.sequence[tile.first]];
}

/// Writes the numbers of a query's part that are no sums of values.
__device__ __forceinline__ void leave_part(const AttentionCall& call, const Queries& q, int i,
                                           int chunk) {
  if (q.row[i] < 0)
    return;
  float* part = call.part(q.row[i], q.head[i], chunk);
  part[0] = q.highest[i];
  part[1] = q.total[i];
}

cudaError_t attend_bf16(const Queue& queue, dim3 grid, const AttentionCall& call);
cudaError_t attend_int8(const Queue& queue, dim3 grid, const AttentionCall& call);
cudaError_t attend_f32(const Queue& queue, dim3 grid, const AttentionCall& call);

} // namespace paceline::gpu::cuda::kernels
