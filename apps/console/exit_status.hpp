// Exit statuses (docs/program.md and `paceline --help`).
#pragma once

namespace paceline::apps {

inline constexpr int status_ok = 0;
inline constexpr int status_failed = 1;
inline constexpr int status_usage = 2;
inline constexpr int status_interrupted = 130; // 128 + SIGINT, the status that shells use.

} // namespace paceline::apps
