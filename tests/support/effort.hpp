// How much of a long test a build does.
#pragma once

namespace paceline::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Sanitizers look for errors on every path, and take ten times as long: a tenth of the statistics
/// will do for them.
constexpr int effort(int full) {
  return sanitized ? full / 10 : full;
}

} // namespace paceline::testing
