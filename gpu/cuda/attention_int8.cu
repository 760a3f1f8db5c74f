// Attention over a cache of int8: codes are multiplied as bf16, which has them all, and their
// scales are factors of scores and weights.
#include "gpu/cuda/attention_matrix.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int pad_codes = 16; ///< As pad_words, for rows of codes.

template <int dims>
struct Int8Chunk {
  static constexpr int head_dims = dims;
  static constexpr bool may_be_infinite = false; ///< A scale may be NaN, and a code is a number.
  alignas(16) std::int8_t keys[attention_chunk][dims + pad_codes];
  alignas(16) std::int8_t values[attention_chunk][dims + pad_codes];
  float key_scales[attention_chunk];
  /// The scales of a chunk's values, and of the next chunk's: its keys come before this one's
  /// weights are found.
  float value_scales[2][attention_chunk];

  /// Fetches a chunk's keys and all scales, with zeros for positions that no row sees, and for
  /// dimensions that fill up a step.
  __device__ void fetch_keys(const ChunkSource& source, int chunk) {
    fetch(source, chunk, false, keys);
    for (int i = int(threadIdx.x); i < 2 * attention_chunk; i += attention_threads) {
      const bool of_values = i >= attention_chunk;
      const int index = i % attention_chunk;
      const int position = chunk * attention_chunk + index;
      const std::byte* from;
      const int slot =
          of_values ? source.find_value(position, from) : source.find_key(position, from);
      from += source.code_bytes() + slot * int(sizeof(float));
      ptx::copy_async<4>(of_values ? &value_scales[chunk % 2][index] : &key_scales[index], from,
                         source.seen(position));
    }
  }
  __device__ void fetch_values(const ChunkSource& source, int chunk) {
    fetch(source, chunk, true, values);
  }

  /// Returns dimensions 2 word, 2 word + 1, and the two of word + 4, of a key.
  __device__ uint2 key_words(int key, int word) const {
    const std::int8_t* codes = &keys[key][2 * word];
    return {ptx::round_pair(codes[0], codes[1]), ptx::round_pair(codes[8], codes[9])};
  }
  /// Returns the values of positions 2 row and 2 row + 1.
  __device__ std::uint32_t value_word(int row, int d) const {
    return ptx::round_pair(values[2 * row][d], values[2 * row + 1][d]);
  }
  /// Return what a product with a position's key means, and what its value is multiplied by.
  __device__ float product(int position, float sum) const { return sum * key_scales[position]; }
  __device__ float weight(int chunk, int position, float weight) const {
    return weight * value_scales[chunk % 2][position];
  }

private:
  /// Fetches a chunk's codes; a thread has the same 8 dimensions of each position.
  __device__ static void fetch(const ChunkSource& source, int chunk, bool of_values,
                               std::int8_t (*to)[dims + pad_codes]) {
    constexpr int units = dims / 8;
    const int unit = int(threadIdx.x) % units;
    if (unit >= 2 * source.steps())
      return;
#pragma unroll
    for (int k = 0; k < attention_chunk * units / attention_threads; ++k) {
      const int i = int(threadIdx.x) / units + k * (attention_threads / units);
      const int position = chunk * attention_chunk + i;
      const std::byte* from;
      const int slot =
          of_values ? source.find_value(position, from) : source.find_key(position, from);
      from += slot * source.head_dim() + unit * 8;
      ptx::copy_async<8>(&to[i][unit * 8], from,
                         source.seen(position) && unit * 8 < source.head_dim());
    }
  }
};

} // namespace

cudaError_t attend_int8(const Queue& queue, dim3 grid, const AttentionCall& call) {
  return attend_by_matrices<Int8Chunk>(queue, grid, call);
}

} // namespace paceline::gpu::cuda::kernels
