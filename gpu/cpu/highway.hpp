// The portable kernel family (see highway.cpp), and the part of its attention that a family with
// products of its own goes on using.
#pragma once

#include "gpu/operations.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace paceline::gpu::cpu {

class Kernels;

/// For the best vector instructions that this machine has.
const Kernels& highway_kernels();

/// For each instruction set that this machine has, the best first, named "highway-avx2" and so
/// on: for tests, and to measure what a lesser machine would do.
std::vector<const Kernels*> highway_variants();

/// What a query's running softmax has come to (Milakov and Gimelshein 2018).
struct Softmax {
  float highest = -std::numeric_limits<float>::infinity();
  float total = 0;
};

/// Products of a query and the keys [begin, end) of a block become weights, rounded to bf16 as they
/// will be multiplied; the rest of the block gets 0. Returns what earlier sums must be multiplied
/// with. scores: [key_block]; begin < end.
using WeighBlock = float(Softmax& softmax, float* scores, int begin, int end,
                         const AttentionOptions& options);

/// Null where the portable family has no vectors to do it with.
WeighBlock* highway_weigh_block();

class PackedWeight;

/// Blocks [first, last) of one tile of a microscaling weight as the bf16 weight's would be: each
/// 1 KiB at `to`. The same numbers whatever the instruction set.
using DecodeBlocks = void(const PackedWeight& w, int tile, int first, int last, std::byte* to);

/// Null where the portable family has no vectors to do it with.
DecodeBlocks* highway_decode_blocks();

} // namespace paceline::gpu::cpu
