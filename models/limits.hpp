// Bounds of the models layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::models::limits {

inline constexpr std::size_t json_file_bytes_max = 64u << 20; ///< Larger files are refused.
inline constexpr std::size_t safetensors_header_bytes_max = 100u
                                                            << 20; ///< As the format's own limit.
inline constexpr int json_depth_max = 64;
inline constexpr int vocabulary_max = 1 << 20;
inline constexpr int layers_max = 1024;
inline constexpr int hidden_max = 1 << 17;
inline constexpr int context_max = 1 << 24;
inline constexpr int scripted_memory_max = 64;

} // namespace paceline::models::limits
