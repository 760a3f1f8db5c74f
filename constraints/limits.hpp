// Bounds of the constraints layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::constraints::limits {

/// Bytes of a schema, grammar or expression, or of all choices; larger forms are refused.
inline constexpr std::size_t form_bytes_max = 64u << 10;
/// Bytes of a regular expression; some states of a longer one take hundreds of megabytes.
inline constexpr std::size_t expression_bytes_max = 8u << 10;
inline constexpr std::size_t choices_max = 1024; ///< More are refused.
/// Parts of a form within each other; deeper ones are refused.
inline constexpr int form_depth_max = 64;
/// Items, characters and repetitions that a form may count up to; more are refused.
inline constexpr std::int64_t form_count_max = 100'000;
inline constexpr int whitespace_max = 16; ///< Blanks in a row between two parts of JSON.
/// Seconds of computing; a form that takes longer to compile is refused.
inline constexpr double compile_seconds_max = 5;
/// Seconds of computing, for what may follow one output; a request whose form takes longer ends.
inline constexpr double mask_seconds_max = 0.05;
/// Bytes of compiled forms that an engine keeps, for whoever asks for them again.
inline constexpr std::size_t compiled_bytes_max = 256u << 20;
/// Masks that a request keeps, of the outputs that were asked for last.
inline constexpr std::size_t masks_kept = 32;

} // namespace paceline::constraints::limits
