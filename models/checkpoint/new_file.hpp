// A new file that is written in any order.
#pragma once

#include "paceline/error.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace paceline::models {

/// A file that was not there before. Errors are `unavailable`, with the system's message. Threads:
/// one; `write` any.
class NewFile {
public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Takes the room on the disk; bytes that are never written are zero.
  Result<void> reserve(std::size_t bytes);
  Result<void> write(std::size_t at, std::span<const std::byte> bytes);
  /// Closes the file; nothing may be written any more. Errors: those that the system reports late.
  Result<void> close();

private:
  NewFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  tl::unexpected<Error> cannot(int error_number) const;

  std::string path_;
  int file_;
};

} // namespace paceline::models
