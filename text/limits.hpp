// Bounds of the text layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::text::limits {

/// Larger JSON files are refused, and so are deeper ones.
inline constexpr std::size_t json_file_bytes_max = 64u << 20;
inline constexpr int json_depth_max = 64;
/// A vocabulary of more tokens is refused, and one with a longer token, or with more bytes in all.
inline constexpr int vocabulary_max = 1 << 20;
inline constexpr std::size_t token_bytes_max = 1024;
inline constexpr std::size_t vocabulary_bytes_max = 8u << 20;
/// A draft model that has less of the target's tokens is refused.
inline constexpr double vocabulary_share_min = 0.3;
/// A draft model reads at most so many tokens in place of one of the target's that it lacks: the
/// last of them.
inline constexpr int vocabulary_reading_max = 16;
/// So many bytes of a token are looked for where a tokenizer would not give its bytes back.
inline constexpr std::size_t vocabulary_match_bytes = 32;
/// Longer chat templates are refused, and those with more blocks and values within each other.
inline constexpr std::size_t template_bytes_max = 1u << 20;
inline constexpr int template_nesting_max = 128;
/// A template ends in an error that has more blocks and expressions under way at a time, takes more
/// steps, makes a longer range, a wider number or text, or a text of more bytes.
inline constexpr int template_depth_max = 400;
inline constexpr std::size_t template_steps_max = 8'000'000;
inline constexpr std::size_t template_range_max = 100'000;
inline constexpr int template_width_max = 1 << 20;
inline constexpr std::size_t template_text_bytes_max = 64u << 20;
/// A variable, or a message's field, that is no text and longer as JSON is refused by name.
inline constexpr std::size_t template_value_bytes_max = 1u << 20;
/// More values in all variables and messages' fields of a conversation, inner ones included, are
/// refused.
inline constexpr std::size_t template_values_max = 1u << 17;
/// A conversation has at most so many variables, and a message so many fields: a template looks for
/// each name among all.
inline constexpr std::size_t template_names_max = 64;
/// Bytes of an answer in which a call of a function must name it; what takes longer is content.
inline constexpr std::size_t call_head_bytes_max = 4096;
inline constexpr int call_depth_max = 64; ///< Values of a call in Python within each other.

} // namespace paceline::text::limits
