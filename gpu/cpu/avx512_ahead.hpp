// Weights that are fetched while products of few rows decode others in registers. Decoding leaves
// the processor no room to look ahead, it sees no single stream where several tiles are read in
// turn, and many requests at once hold up the loads behind them: each step fetches as many lines as
// it reads.
#pragma once

#include "gpu/cpu/avx512_words.hpp"
#include "gpu/cpu/weight.hpp"

#if defined(__x86_64__)

#include <algorithm>

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {

/// Fetches the Tiles tiles that are multiplied next, in the order of memory.
template <int Tiles>
class NextTiles {
public:
  /// next: the first of those tiles, or -1: none. parts: each of which has own scales.
  NextTiles(const PackedWeight& w, int tile, int next, int parts)
      : at_(w.tile(next < 0 ? tile : next)), // What is there already costs little.
        scale_bytes_(Tiles * (w.scale_bytes() / std::size_t(parts) + 1)) {}

  /// Called at the beginning of a part.
  ALWAYS_INLINE void part() {
    for (std::size_t i = 0; i < scale_bytes_; i += line)
      prefetch(at_ + i);
    at_ += scale_bytes_;
  }
  /// Called before `lines` lines of each tile are decoded.
  template <int lines>
  ALWAYS_INLINE void lines_of_each() {
    repeat<lines * Tiles>([&](auto i) INLINED { prefetch(at_ + i * line); });
    at_ += lines * Tiles * line;
  }

private:
  const std::byte* at_;
  const std::size_t scale_bytes_;
};

/// Fetches what follows in each of the tiles. It suits codes of eight bits, whose decoding takes so
/// little time that they must come to the first-level cache, which holds not much more than this.
template <int Tiles>
class OwnLines {
public:
  OwnLines(const PackedWeight& w, int tile, int next, int parts)
      : next_(w.tile(next < 0 ? tile : next)), scale_bytes_(w.scale_bytes()),
        tile_bytes_(w.tile_bytes()), part_scales_(scale_bytes_ / std::size_t(parts)) {
    const std::size_t part_words = (tile_bytes_ - scale_bytes_) / std::size_t(parts);
    const int early = std::min(parts, int(bytes_early / part_words));
    left_ = parts - early;
    scales_ = w.tile(tile) + std::size_t(early) * part_scales_;
    words_ = w.tile(tile) + scale_bytes_ + std::size_t(early) * part_words;
  }

  ALWAYS_INLINE void part() {
    if (left_-- == 0) {
      scales_ = next_;
      words_ = next_ + scale_bytes_;
    }
    repeat<Tiles>([&](auto t) INLINED { prefetch(scales_ + t * tile_bytes_); });
    scales_ += part_scales_;
  }
  template <int lines>
  ALWAYS_INLINE void lines_of_each() {
    repeat<Tiles>([&](auto t) INLINED {
      repeat<lines>([&](auto i) INLINED { prefetch(words_ + t * tile_bytes_ + i * line); });
    });
    words_ += lines * line;
  }

private:
  static constexpr std::size_t bytes_early = 2048;

  const std::byte* const next_;
  const std::size_t scale_bytes_;
  const std::size_t tile_bytes_;
  const std::size_t part_scales_;
  int left_; ///< Parts until those of the next tiles begin.
  const std::byte* scales_;
  const std::byte* words_;
};

/// Fetches nothing: the tiles are decoded, and in a cache.
struct NothingAhead {
  NothingAhead(const PackedWeight& /*w*/, int /*tile*/, int /*next*/, int /*parts*/) {}
  void part() {}
  template <int lines>
  void lines_of_each() {}
};

/// What suits a block of products. bits: of a code; `decoded`: the tiles are.
template <int bits, int Tiles>
using Ahead = std::conditional_t<
    bits == decoded, NothingAhead,
    std::conditional_t<bits == 8 && Tiles == 4, OwnLines<Tiles>, NextTiles<Tiles>>>;

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
