// The portable kernel family (see highway.cpp), and the part of its attention that families with
// their own products use, too.
#pragma once

#include "gpu/operations.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace paceline::gpu::cpu {

class Kernels;

/// Returns the kernels for the best vector instructions that this machine has.
const Kernels& highway_kernels();

/// Returns kernels for each instruction set that this machine has, the best first, named
/// "highway-avx2" and so on. They are for tests, and to measure what a lesser machine would do.
std::vector<const Kernels*> highway_variants();

/// State of a query's running softmax (Milakov and Gimelshein 2018).
struct Softmax {
  float highest = -std::numeric_limits<float>::infinity();
  float total = 0;

  /// Returns that of a query which has seen no position: its head's sink, if it has one.
  static Softmax begin(const float* sink) { return sink ? Softmax{*sink, 1} : Softmax(); }
};

/// Turns the products of a query with keys [begin, end) of a block into weights, rounded to bf16 as
/// they will be multiplied; the rest of the block gets 0. Returns the factor for earlier sums.
/// scores: [key_block]; begin < end.
using WeighBlock = float(Softmax& softmax, float* scores, int begin, int end,
                         const AttentionOptions& options);

/// Returns null if the portable family has no vectors for it.
WeighBlock* highway_weigh_block();

class PackedWeight;

/// Decodes blocks [first, last) of one tile of a microscaling weight as the bf16 weight would have
/// them, 1 KiB each, to `to`. The numbers are the same for all instruction sets.
using DecodeBlocks = void(const PackedWeight& w, int tile, int first, int last, std::byte* to);

/// Returns null if the portable family has no vectors for it.
DecodeBlocks* highway_decode_blocks();

} // namespace paceline::gpu::cpu
