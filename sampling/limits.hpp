// Bounds of the sampling layer (docs/limits.md lists all layers').
#pragma once

namespace paceline::sampling::limits {

/// A request for a longer window is refused.
inline constexpr int window_max = 32;
/// So many tokens are guessed in place of a rejected one.
inline constexpr int guesses_max = 8;
/// A request for more likeliest tokens, stop strings, bytes of one, or biases is refused.
inline constexpr int top_logprobs_max = 20;
inline constexpr int stop_strings_max = 16;
inline constexpr int stop_string_bytes_max = 256;
inline constexpr int logit_bias_max = 1024;

} // namespace paceline::sampling::limits
