// Rounds floats to the blocks of GGUF files, for the host, one block at a time.
#pragma once

#include "gpu/gguf_format.hpp"
#include "paceline/weight_format.hpp"

#include <array>
#include <cstddef>

namespace paceline::gpu {

/// The types to which floats are rounded; blocks of the other types are only read.
inline constexpr std::array encoded_gguf_formats{
    GgufFormat::q4_0, GgufFormat::q5_0, GgufFormat::q8_0, GgufFormat::q4_k, GgufFormat::mxfp4};

/// Rounds floats to a block of one of these types. Scales are those of the least squared error that
/// a few rounds of alternating least squares find; MXFP4's is `choice`'s. values: [block_elements],
/// finite; block: [block_bytes], with any alignment.
void encode_block(GgufFormat format, ScaleChoice choice, const float* values, std::byte* block);

} // namespace paceline::gpu
