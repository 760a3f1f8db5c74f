// The portable kernel family (see highway.cpp).
#pragma once

#include <vector>

namespace paceline::gpu::cpu {

class Kernels;

/// For the best vector instructions that this machine has.
const Kernels& highway_kernels();

/// For each instruction set that this machine has, the best first, named "highway-avx2" and so
/// on: for tests, and to measure what a lesser machine would do.
std::vector<const Kernels*> highway_variants();

} // namespace paceline::gpu::cpu
