// Bounds of the models layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::models::limits {

inline constexpr std::size_t safetensors_header_bytes_max = 100u
                                                            << 20; ///< As the format's own limit.
inline constexpr std::size_t tensors_max = 1u << 18; ///< Tensors of a file; more are refused.
inline constexpr std::size_t shards_max = 1024;      ///< Files of one checkpoint; more are refused.
inline constexpr std::size_t tensor_rank_max = 8;    ///< Dimensions of one tensor.
inline constexpr std::size_t gguf_keys_max = 1u << 16;      ///< Of a GGUF file; more are refused.
inline constexpr std::size_t gguf_name_bytes_max = 1024;    ///< Of a key or a tensor in one.
inline constexpr std::size_t gguf_rank_max = 4;             ///< Dimensions of a tensor in one.
inline constexpr int gguf_alignment_max = 1 << 20;          ///< Of its tensors.
inline constexpr std::size_t quantized_patterns_max = 4096; ///< Of layers; more are refused.
inline constexpr int layers_max = 1024;
inline constexpr int hidden_max = 1 << 17;
inline constexpr int heads_max = 1 << 12;
inline constexpr int head_dim_max = 1 << 12;
inline constexpr int context_max = 1 << 24;
/// Longest sequence of a model unless more is asked for: rotations are tabled for every position.
inline constexpr int positions_default = 1 << 17;
inline constexpr std::size_t rope_table_bytes_max = 2u << 30; ///< Larger tables are refused.
inline constexpr int scripted_memory_max = 64;

} // namespace paceline::models::limits
