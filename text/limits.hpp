// Bounds of the text layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::text::limits {

inline constexpr std::size_t json_file_bytes_max = 64u << 20; ///< Larger files are refused.
inline constexpr int json_depth_max = 64;                     ///< Deeper JSON is refused.
inline constexpr int vocabulary_max = 1 << 20;       ///< Tokens; larger vocabularies are refused.
inline constexpr std::size_t token_bytes_max = 1024; ///< Longer tokens are refused.
inline constexpr std::size_t vocabulary_bytes_max = 8u << 20; ///< Of all tokens together.
/// A draft model that has less of the target's tokens is refused.
inline constexpr double vocabulary_share_min = 0.3;
/// Tokens that a draft model reads in place of one of the target's that it lacks: the last of them.
inline constexpr int vocabulary_reading_max = 16;
/// Bytes of a token that are looked for where a tokenizer would not give its bytes back.
inline constexpr std::size_t vocabulary_match_bytes = 32;
inline constexpr std::size_t template_bytes_max = 1u << 20; ///< Longer chat templates are refused.
inline constexpr int template_nesting_max = 128; ///< Blocks and values within each other.
inline constexpr int template_depth_max = 400;   ///< Blocks and expressions under way at a time.
inline constexpr std::size_t template_steps_max = 8'000'000; ///< Steps that a template may take.
inline constexpr std::size_t template_range_max = 100'000;   ///< Longer ranges are refused.
inline constexpr int template_width_max = 1 << 20; ///< Widths and digits of texts and numbers.
inline constexpr std::size_t template_text_bytes_max = 64u << 20; ///< Of each text it makes.
/// JSON of a variable, or of a message's field, that is no text; a longer one is refused by name.
inline constexpr std::size_t template_value_bytes_max = 1u << 20;
/// Values in all variables and messages' fields of a conversation, inner ones included; one more
/// is refused.
inline constexpr std::size_t template_values_max = 1u << 17;
/// Bytes of an answer in which a call of a function must name it; what takes longer is content.
inline constexpr std::size_t call_head_bytes_max = 4096;
inline constexpr int call_depth_max = 64; ///< Values of a call in Python within each other.

} // namespace paceline::text::limits
