// Bounds of the models layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::models::limits {

inline constexpr std::size_t json_file_bytes_max = 64u << 20; ///< Larger files are refused.
inline constexpr std::size_t safetensors_header_bytes_max = 100u
                                                            << 20; ///< As the format's own limit.
inline constexpr int json_depth_max = 64;
inline constexpr std::size_t tensors_max = 1u << 18; ///< Of one file; more are refused.
inline constexpr std::size_t shards_max = 1024;      ///< Files of one checkpoint; more are refused.
inline constexpr std::size_t tensor_rank_max = 8;    ///< Dimensions of one tensor.
inline constexpr int vocabulary_max = 1 << 20;
inline constexpr std::size_t token_bytes_max = 1024;          ///< Longer tokens are refused,
inline constexpr std::size_t vocabulary_bytes_max = 8u << 20; ///< and more bytes of all together.
inline constexpr int layers_max = 1024;
inline constexpr int hidden_max = 1 << 17;
inline constexpr int heads_max = 1 << 12;
inline constexpr int head_dim_max = 1 << 12;
inline constexpr int context_max = 1 << 24;
/// Longest sequence of a model unless more is asked for: rotations are tabled for every position.
inline constexpr int positions_default = 1 << 17;
inline constexpr std::size_t rope_table_bytes_max = 2u << 30; ///< Larger tables are refused.
inline constexpr int scripted_memory_max = 64;
inline constexpr std::size_t template_bytes_max = 1u << 20; ///< Longer chat templates are refused.
inline constexpr int template_nesting_max = 128; ///< Of their blocks, expressions and values.
inline constexpr int template_depth_max = 400; ///< Of blocks and expressions while one is followed.
inline constexpr std::size_t template_steps_max = 8'000'000;      ///< That following one may take.
inline constexpr std::size_t template_text_bytes_max = 64u << 20; ///< Of each text it makes.

} // namespace paceline::models::limits
