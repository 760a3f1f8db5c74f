// The program `cuda_device` takes its memory from a pinned block, so that test bodies which know
// nothing of a GPU's memory may hand their vectors to kernels.
#pragma once

namespace paceline::gpu::testing {

/// Pins new memory from now on. Without a GPU, and once the block is used up, it is the heap's.
void pin_new_memory();

} // namespace paceline::gpu::testing
