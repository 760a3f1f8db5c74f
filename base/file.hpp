// Writing of files and folders that appear only when they are complete.
#pragma once

#include "paceline/error.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace paceline::base {

/// Writes a file. write: puts everything into the stream that it is given; whether that worked is
/// checked afterwards. A regular file is replaced at once when all is written, so that nobody ever
/// finds half of it; it keeps its mode and owner, and links to it stay. Anything else (a pipe, a
/// terminal, a device) is written to. Errors: `unavailable`, with the system's message; an older
/// file is then still there.
Result<void> write_file(const std::string& path, const std::function<void(std::FILE*)>& write);

/// Does the same with one text.
Result<void> write_text_file(const std::string& path, std::string_view text);

/// Makes a folder. write: fills the folder that it is given, which lies beside `path` and is
/// renamed to it at once when all is written, so that nobody ever finds half of it; it is deleted
/// if `write` fails. Errors: `invalid_argument` if something is at `path`, even if it appeared
/// meanwhile; `unavailable`, with the system's message.
Result<void> write_folder(const std::string& path,
                          const std::function<Result<void>(const std::string& folder)>& write);

/// Makes a file in the same way. write: makes it at the path that it is given, which has the same
/// name in a folder beside `path` that is deleted afterwards. Errors: those of write_folder.
Result<void> write_new_file(const std::string& path,
                            const std::function<Result<void>(const std::string& file)>& write);

/// Gives a file or a folder a new name within one file system, at once. Errors: `invalid_argument`
/// if something is at `to`; `unavailable`, with the system's message.
Result<void> move_to_new(const std::string& from, const std::string& to);

/// Returns whether `write_file` could now write there.
bool can_write_file(const std::string& path);

} // namespace paceline::base
