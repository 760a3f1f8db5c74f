#include "base/file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline::base {
namespace {

namespace fs = std::filesystem;

/// Returns where a path leads through all links; the last link may lead to nothing yet. None: it
/// leads to something that must not be replaced. A file that a process has open (/dev/stdout) is
/// such a thing, because others write to it, too.
std::optional<fs::path> place_of(const std::string& path) {
  constexpr int links_max = 40; // the kernel's own limit
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return std::nullopt;
  fs::path place = path;
  std::error_code failed;
  for (int i = 0; i < links_max && fs::is_symlink(place, failed); ++i) {
    if (fs::weakly_canonical(place.parent_path(), failed).string().starts_with("/proc/"))
      return std::nullopt;
    place = place.parent_path() / fs::read_symlink(place, failed); // an absolute one replaces it
  }
  return place;
}

tl::unexpected<Error> cannot_write(const std::string& path, int error_number) {
  return fail(ErrorCode::unavailable,
              fmt::format("cannot write {} ({})", path, std::strerror(error_number)),
              "check its folder, its permissions and the free space");
}

/// Returns 0, or the errno of what failed. The file is closed in any case.
int write_and_close(int file, const std::function<void(std::FILE*)>& write) {
  std::FILE* stream = file < 0 ? nullptr : fdopen(file, "wb");
  if (!stream)
    return errno;
  write(stream);
  int failed = std::fflush(stream) == 0 && std::ferror(stream) == 0 ? 0 : errno;
  if (std::fclose(stream) != 0 && failed == 0)
    failed = errno;
  return failed;
}

/// Writes a file beside `place`, and renames it to `place`. Returns 0, or the errno of what failed.
int replace(const fs::path& place, const std::function<void(std::FILE*)>& write) {
  const std::string temporary = fmt::format("{}.{}.part", place.string(), getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0)
    return errno;
  struct stat before {};
  if (stat(place.c_str(), &before) == 0) {
    (void)!fchown(file, before.st_uid, before.st_gid); // as far as this process may
    (void)!fchmod(file, before.st_mode & 07777U);
  }
  int failed = write_and_close(file, write);
  if (failed == 0 && std::rename(temporary.c_str(), place.c_str()) != 0)
    failed = errno;
  if (failed != 0)
    unlink(temporary.c_str());
  return failed;
}

/// Returns 0, or the errno of what failed; EEXIST if something is at `to`.
int rename_to_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  std::error_code failed; // This file system has no rename that refuses to replace.
  if (fs::exists(fs::symlink_status(to, failed)))
    return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

/// A new folder, which the destructor deletes unless it was moved to its place.
class NewFolder {
public:
  explicit NewFolder(fs::path path) : path_(std::move(path)) {
    failed_ = mkdir(path_.c_str(), 0777) == 0 ? 0 : errno;
  }
  ~NewFolder() {
    std::error_code ignored;
    if (failed_ == 0)
      fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return path_; }
  int failed() const { return failed_; }

private:
  fs::path path_;
  int failed_;
};

tl::unexpected<Error> is_there(const std::string& path) {
  return fail(ErrorCode::invalid_argument, path + " exists", "name one that does not");
}

/// Makes a folder beside `place`, and moves what `write` has made there to `place`. within: what
/// that is, below the new folder; empty: the folder itself.
Result<void> write_beside(const std::string& path, const fs::path& place, const fs::path& within,
                          const std::function<Result<void>(const std::string& made)>& write) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(place, ignored)))
    return is_there(path);
  const NewFolder folder(fmt::format("{}.{}.part", place.string(), getpid()));
  if (folder.failed() != 0)
    return cannot_write(path, folder.failed());
  const std::string made = (within.empty() ? folder.path() : folder.path() / within).string();
  return write(made).and_then([&] { return move_to_new(made, place.string()); });
}

} // namespace

Result<void> write_text_file(const std::string& path, std::string_view text) {
  return write_file(path, [&](std::FILE* file) { std::fwrite(text.data(), 1, text.size(), file); });
}

Result<void> write_folder(const std::string& path,
                          const std::function<Result<void>(const std::string& folder)>& write) {
  const fs::path place = path;
  return write_beside(path, place.has_filename() ? place : place.parent_path(), {}, write);
}

Result<void> write_new_file(const std::string& path,
                            const std::function<Result<void>(const std::string& file)>& write) {
  const fs::path place = path;
  return write_beside(path, place, place.filename(), write);
}

Result<void> move_to_new(const std::string& from, const std::string& to) {
  const int failed = rename_to_new(from, to);
  if (failed == EEXIST)
    return is_there(to);
  if (failed != 0)
    return cannot_write(to, failed);
  return {};
}

Result<void> write_file(const std::string& path, const std::function<void(std::FILE*)>& write) {
  const auto place = place_of(path);
  const int failed =
      place ? replace(*place, write)
            : write_and_close(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC), write);
  if (failed != 0)
    return cannot_write(path, failed);
  return {};
}

bool can_write_file(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path.ends_with('/') || fs::is_directory(path, ignored))
    return false;
  const auto place = place_of(path);
  if (!place)
    return access(path.c_str(), W_OK) == 0;
  const fs::path folder = place->parent_path();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

} // namespace paceline::base
