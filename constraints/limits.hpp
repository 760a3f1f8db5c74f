// Bounds of the constraints layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::constraints::limits {

inline constexpr std::size_t form_bytes_max = 64u
                                              << 10; ///< Longer schemas and grammars are refused.
inline constexpr std::size_t choices_max = 1024;     ///< More are refused.
/// Of a schema, a structural tag or a grammar, parts within each other; deeper ones are refused.
inline constexpr int form_depth_max = 64;
/// Items, characters and repetitions that a form may count up to; more are refused.
inline constexpr std::int64_t form_count_max = 100'000;
inline constexpr int whitespace_max = 16; ///< Blanks in a row between two parts of JSON.
inline constexpr double compile_seconds_max =
    5; ///< Of computing; a form that takes longer is refused.
/// Of computing, for what may follow one output; a request whose form takes longer ends.
inline constexpr double mask_seconds_max = 0.05;
/// Of forms that were compiled and may be asked for again, of one engine.
inline constexpr std::size_t compiled_bytes_max = 256u << 20;
inline constexpr std::size_t forms_kept = 256;
/// Of one request, behind outputs that were asked for last.
inline constexpr std::size_t masks_kept = 32;

} // namespace paceline::constraints::limits
