// Bounds of the sampling layer (docs/limits.md lists all layers').
#pragma once

namespace paceline::sampling::limits {

inline constexpr int window_max = 32;       ///< Longest window K; larger requests are refused.
inline constexpr int guesses_max = 8;       ///< Tokens guessed in place of a rejected one.
inline constexpr int top_logprobs_max = 20; ///< More are refused at submission.
inline constexpr int stop_strings_max = 16; ///< More are refused at submission.
inline constexpr int stop_string_bytes_max = 256;
inline constexpr int logit_bias_max = 1024; ///< Entries; more are refused at submission.

} // namespace paceline::sampling::limits
