// Bounds of the constraints layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::constraints::limits {

/// A larger schema or grammar, and more of all choices together, are refused.
inline constexpr std::size_t form_bytes_max = 64u << 10;
/// A longer regular expression is refused: some states of one take hundreds of megabytes.
inline constexpr std::size_t expression_bytes_max = 8u << 10;
/// More choices are refused.
inline constexpr std::size_t choices_max = 1024;
/// A form with more parts within each other is refused.
inline constexpr int form_depth_max = 64;
/// A form that counts more items, characters or repetitions is refused.
inline constexpr std::int64_t form_count_max = 100'000;
/// JSON has at most so many blanks in a row between two parts.
inline constexpr int whitespace_max = 16;
/// A form that takes more seconds of computing to compile is refused.
inline constexpr double compile_seconds_max = 5;
/// Strings of more characters are counted as they are read, which takes some ten milliseconds a
/// mask where the vocabulary is large.
inline constexpr int string_states_max = 1024;
/// The forms of an engine keep so many masks of bounded strings, a bit for each token.
inline constexpr std::size_t string_masks_kept = 4096;
/// A request ends whose form takes more seconds of computing to say what may follow one output.
inline constexpr double mask_seconds_max = 0.2;
/// An engine keeps so many bytes of compiled forms, for whoever asks for them again.
inline constexpr std::size_t compiled_bytes_max = 256u << 20;
/// A request keeps so many masks, of the outputs that were asked for last.
inline constexpr std::size_t masks_kept = 32;
/// A form looks at so many tokens that may come, to see whether all of them spell one text.
inline constexpr std::size_t spellings_max = 64;

} // namespace paceline::constraints::limits
