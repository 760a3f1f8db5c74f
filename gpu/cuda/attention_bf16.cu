// Attention over a cache of bf16.
#include "gpu/cuda/attention_matrix.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int pad_value_words = 8; ///< As pad_words, where a row is two positions.

template <int dims>
struct Bf16Chunk {
  static constexpr int head_dims = dims;
  static constexpr bool may_be_infinite = true; ///< Whether a value may be infinite, or NaN.
  alignas(16) std::uint32_t keys[attention_chunk][dims / 2 + pad_words];
  alignas(16) std::uint32_t values[attention_chunk / 2][dims + pad_value_words]; ///< By pairs.

  /// Fetches a chunk's keys, with zeros for keys that no row sees and dimensions that fill up a
  /// step.
  __device__ void fetch_keys(const ChunkSource& source, int chunk) {
    constexpr int units = dims / 8; // Units of 8 dimensions; a thread has the same of each key.
    const int unit = int(threadIdx.x) % units;
    if (unit >= 2 * source.steps())
      return;
#pragma unroll
    for (int k = 0; k < attention_chunk * units / attention_threads; ++k) {
      const int i = int(threadIdx.x) / units + k * (attention_threads / units);
      const int position = chunk * attention_chunk + i;
      const std::byte* from;
      const int slot = source.find_key(position, from);
      from += (slot * source.head_dim() + unit * 8) * int(sizeof(base::bf16));
      ptx::copy_async<16>(&keys[i][unit * 4], from,
                          source.seen(position) && unit * 8 < source.head_dim());
    }
  }

  /// Fetches a chunk's values, two positions at a time.
  __device__ void fetch_values(const ChunkSource& source, int chunk) {
    constexpr int units = dims / 4; // Units of 4 dimensions of two positions.
    const int unit = int(threadIdx.x) % units;
    if (unit * 4 >= source.head_dim())
      return;
#pragma unroll
    for (int k = 0; k < attention_chunk / 2 * units / attention_threads; ++k) {
      const int i = int(threadIdx.x) / units + k * (attention_threads / units);
      const int position = chunk * attention_chunk + i * 2;
      std::uint32_t* to = &values[i][unit * 4];
      const bool first = source.seen(position);
      const bool second = source.seen(position + 1);
      const std::byte* from;
      const int slot = source.find_value(position, from);
      from += (slot / 2 * source.head_dim() + unit * 4) * int(sizeof(std::uint32_t));
      if (first == second)
        ptx::copy_async<16>(to, from, first);
      else
        copy_half(to, from, second);
    }
  }

  /// Copies the half of four words that is seen, and zeros the other, which may be anything and
  /// must not become NaN times a weight of 0.
  __device__ static void copy_half(std::uint32_t* to, const std::byte* from, bool second) {
    const auto* halves = reinterpret_cast<const base::bf16*>(from);
    for (int i = 0; i < 4; ++i) {
      const auto bits = std::uint32_t(halves[2 * i + int(second)].bits);
      to[i] = second ? bits << 16 : bits;
    }
  }

  /// Returns words `word` and `word` + 4 of a key, two dimensions each.
  __device__ uint2 key_words(int key, int word) const {
    return {keys[key][word], keys[key][word + 4]};
  }
  /// Returns the values of positions 2 row and 2 row + 1.
  __device__ std::uint32_t value_word(int row, int d) const {
    return values[row][d];
  }
  /// Return what a product with a position's key means, and what its value is multiplied by.
  __device__ float product(int /*position*/, float sum) const {
    return sum;
  }
  __device__ float weight(int /*chunk*/, int /*position*/, float weight) const {
    return weight;
  }
};

} // namespace

cudaError_t attend_bf16(const Queue& queue, dim3 grid, const AttentionCall& call) {
  return attend_by_matrices<Bf16Chunk>(queue, grid, call);
}

} // namespace paceline::gpu::cuda::kernels
