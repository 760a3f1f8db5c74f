// The program `cuda_device` takes its memory from a pinned block, so that test bodies which know
// nothing of a GPU's memory may hand their vectors to kernels.
#pragma once

namespace paceline::gpu::testing {

/// From now on; before, and where there is no GPU or the block is used up, memory is the heap's.
void pin_new_memory();

} // namespace paceline::gpu::testing
