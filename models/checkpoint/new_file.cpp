#include "models/checkpoint/new_file.hpp"

#include "text/json.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace paceline::models {

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile out(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (out.file_ < 0)
    return out.cannot(errno);
  return out;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

NewFile::~NewFile() {
  if (file_ >= 0)
    ::close(file_);
}

Result<void> NewFile::reserve(std::size_t bytes) {
  if (const int failed = posix_fallocate(file_, 0, off_t(bytes)); failed != 0)
    return cannot(failed);
  return {};
}

Result<void> NewFile::write(std::size_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), off_t(at));
    if (written < 0 && errno != EINTR)
      return cannot(errno);
    const auto done = std::size_t(std::max<ssize_t>(written, 0));
    bytes = bytes.subspan(done);
    at += done;
  }
  return {};
}

Result<void> NewFile::close() {
  if (::close(std::exchange(file_, -1)) != 0)
    return cannot(errno);
  return {};
}

tl::unexpected<Error> NewFile::cannot(int error_number) const {
  return fail(
      ErrorCode::unavailable,
      fmt::format("cannot write {} ({})", text::shown_path(path_), std::strerror(error_number)),
      "check its folder, its permissions and the free space");
}

} // namespace paceline::models
