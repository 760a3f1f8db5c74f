// Files that are written whole.
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

/// Whether `write_file` would find a place for it now.
bool can_write_file(const std::string& path);

} // namespace paceline::base
