// Exit statuses (docs/program.md and `paceline --help`), and the line that says why.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::apps {

inline constexpr int status_ok = 0;
inline constexpr int status_failed = 1;
inline constexpr int status_usage = 2;
inline constexpr int status_interrupted = 130; // 128 + SIGINT, the status that shells use.

/// Returns the status for an error that ends a command.
int exit_status(ErrorCode code);

/// Prints `what` as one line on standard error (`for_errors`), and returns `status`.
int complain(const std::string& what, int status);
/// Prints the error in the same way, with options for names of fields.
void print_error(const Error& error);

} // namespace paceline::apps
