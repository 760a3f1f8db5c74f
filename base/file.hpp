// Files and folders that are written whole.
#pragma once

#include "paceline/error.hpp"

#include <cstdio>
#include <functional>
#include <string>

namespace paceline::base {

/// Writes a file. write: puts everything into what it is given; whether that could be written is
/// looked at afterwards. A regular file is replaced at once when all is written, so that nobody
/// ever finds half of it; it keeps its mode and owner, and links that lead to it stay. Anything
/// else (a pipe, a terminal, a device) is written to. Errors: `unavailable`, with what the system
/// says; an older file is then still there.
Result<void> write_file(const std::string& path, const std::function<void(std::FILE*)>& write);

/// Makes a folder. write: fills the one that it is given, which lies beside `path` and takes its
/// place at once when all is written, so that nobody ever finds half of it; it is gone when `write`
/// fails. Errors: `invalid_argument` where something is at `path` already, be it since a moment;
/// `unavailable` with what the system says.
Result<void> write_folder(const std::string& path,
                          const std::function<Result<void>(const std::string& folder)>& write);

/// Whether `write_file` would find a place for it now.
bool can_write_file(const std::string& path);

} // namespace paceline::base
