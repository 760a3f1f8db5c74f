// Bounds of the models layer (docs/limits.md lists all layers').
#pragma once

#include "sampling/limits.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::models::limits {

/// A longer header of a safetensors file is refused, as the format says.
inline constexpr std::size_t safetensors_header_bytes_max = 100u << 20;
/// More tensors of a file are refused.
inline constexpr std::size_t tensors_max = 1u << 18;
/// More files of a checkpoint's weights are refused.
inline constexpr std::size_t shards_max = 1024;
/// More dimensions of a tensor, or of one in a GGUF file, are refused.
inline constexpr std::size_t tensor_rank_max = 8;
inline constexpr std::size_t gguf_rank_max = 4;
/// More keys of a GGUF file are refused.
inline constexpr std::size_t gguf_keys_max = 1u << 16;
/// Longer names of its keys and tensors are refused.
inline constexpr std::size_t gguf_name_bytes_max = 1024;
/// A larger alignment of its tensors is refused.
inline constexpr int gguf_alignment_max = 1 << 20;
/// More patterns of layers in a quantized folder are refused.
inline constexpr std::size_t quantized_patterns_max = 4096;
/// A model with more than this is refused.
inline constexpr int layers_max = 1024;
inline constexpr int hidden_max = 1 << 17;
inline constexpr int experts_max = 1 << 12;
inline constexpr int heads_max = 1 << 12;
inline constexpr int head_dim_max = 1 << 12;
inline constexpr int context_max = 1 << 24;
/// A model's sequences are no longer unless more is asked for: rotations are tabled for every
/// position.
inline constexpr int positions_default = 1 << 17;
/// A larger table of rotations is refused.
inline constexpr std::size_t rope_table_bytes_max = 2u << 30;
/// A pass of a draft, or of a target in stages, whose passes in flight lie on one chain, has no
/// more rows of a sequence that may be taken back.
inline constexpr int tentative_max = 4 * (sampling::limits::window_max + 1);
/// A head that reads more layers of its target, or a drafter of longer blocks, is refused.
inline constexpr int tapped_layers_max = 64;
inline constexpr int block_rows_max = 1024;
/// A scripted model that looks back further is refused.
inline constexpr int scripted_memory_max = 64;

} // namespace paceline::models::limits
