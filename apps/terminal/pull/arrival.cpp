#include "apps/terminal/pull/arrival.hpp"

#include "apps/console/output.hpp"
#include "base/file.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/stores.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps::pull {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot_make(const fs::path& folder, const std::string& why) {
  return fail(ErrorCode::unavailable,
              fmt::format("cannot keep models in {} ({})", text::shown_path(folder.string()), why),
              "set PACELINE_MODELS to a folder where you may write");
}

/// Puts names on the disk before somebody relies on them.
void sync_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return;
  (void)!::fsync(file); // Not every file system can.
  ::close(file);
}

/// Takes a folder's lock. -1: somebody has it, or it was moved away meanwhile.
int lock_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat held {};
  struct stat there {};
  if (file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0 && ::fstat(file, &held) == 0 &&
      ::stat(folder.c_str(), &there) == 0 && held.st_ino == there.st_ino)
    return file;
  if (file >= 0)
    ::close(file);
  return -1;
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (const fs::path& path : models::sorted_entries(folder))
    if (const auto size = fs::file_size(path, failed); !failed)
      bytes += size;
  return bytes;
}

} // namespace

fs::path place_of(const fs::path& models, const models::ModelName& name) {
  return models / name.text();
}

fs::path part_of(const fs::path& models, const models::ModelName& name) {
  const fs::path place = place_of(models, name);
  return place.parent_path() / ("." + place.filename().string() + ".part");
}

Result<Arrival> Arrival::begin(const fs::path& models, const models::ModelName& name) {
  const fs::path folder = part_of(models, name);
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    return cannot_make(models, failed.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_make(models, std::strerror(errno));
  const int lock = lock_folder(folder);
  if (lock < 0)
    return fail(ErrorCode::unavailable, "another process is fetching " + name.text(),
                "wait for its end");
  return Arrival(folder, place_of(models, name), lock);
}

Arrival::Arrival(Arrival&& other) noexcept
    : folder_(std::move(other.folder_)), place_(std::move(other.place_)),
      lock_(std::exchange(other.lock_, -1)) {}

Arrival::~Arrival() {
  if (lock_ >= 0)
    ::close(lock_);
}

Result<void> Arrival::check_room(std::uint64_t bytes) const {
  std::error_code failed;
  const auto space = fs::space(folder_, failed);
  const std::uint64_t here = bytes_in(folder_);
  const std::uint64_t wanted = bytes - std::min(bytes, here);
  if (failed || space.available >= wanted)
    return {};
  return fail(ErrorCode::unavailable,
              fmt::format("the disk of {} has {} left, and {} are still to come",
                          text::shown_path(folder_.parent_path().string()),
                          human_bytes(space.available), human_bytes(wanted)),
              "make room, choose a smaller variant, or set PACELINE_MODELS to a folder elsewhere");
}

Result<void> Arrival::finish(const Selection& selection, const std::string& origin) {
  std::error_code ignored;
  for (const fs::path& path : models::sorted_entries(folder_))
    if (std::ranges::find(selection.files, path.filename().string(), &HubFile::name) ==
        selection.files.end())
      fs::remove_all(path, ignored);
  const auto write = [&](std::FILE* to) { std::fwrite(origin.data(), 1, origin.size(), to); };
  return base::write_file((folder_ / models::origin_file).string(), write)
      .and_then([&] {
        sync_folder(folder_);
        return base::move_to_new(folder_.string(), place_.string());
      })
      .map([&] { sync_folder(place_.parent_path()); });
}

} // namespace paceline::apps::pull
