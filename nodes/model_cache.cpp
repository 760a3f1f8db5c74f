#include "nodes/model_cache.hpp"

#include "models/checkpoint/files.hpp"
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace paceline::nodes {
namespace fs = std::filesystem;

namespace {

constexpr const char* arriving = "/arriving/"; ///< Has the folders of models that are not whole.
constexpr const char* whole = "/models/";      ///< Has a folder for each whole model.
constexpr const char* promise = "promise";     ///< File with an arriving model's bytes.

/// Returns the bytes of all files of models below a folder.
std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code gone; // Somebody may be changing the folder.
    if (entry->is_regular_file(gone) && entry->path().filename() != promise)
      if (const auto size = entry->file_size(gone); !gone)
        bytes += size;
  }
  return bytes;
}

/// Takes the lock of a folder whose model is arriving; empty if somebody has it. The caller holds
/// the cache's lock, so that a look at a folder's lock is not taken for somebody's sending.
FileHandle lock(const std::string& folder) {
  FileHandle file(::open((folder + "/" + promise).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status {};
  // A file without a name was removed together with the folder that it locked.
  if (!file || ::flock(file.number(), LOCK_EX | LOCK_NB) != 0 ||
      ::fstat(file.number(), &status) != 0 || status.st_nlink == 0)
    return FileHandle();
  return file;
}

tl::unexpected<Error> cannot_write() {
  return fail(ErrorCode::unavailable, "the node cannot write in the folder of its models",
              "look after its --model-cache");
}

/// Writes the bytes that the model will take, for those who admit others meanwhile.
Result<void> write_promise(const FileHandle& to, std::uint64_t bytes) {
  if (::pwrite(to.number(), &bytes, sizeof bytes, 0) == ssize_t(sizeof bytes))
    return {};
  return cannot_write();
}

/// Returns the bytes promised to an arriving model; 0 if nobody is sending it.
std::uint64_t read_promise(const std::string& folder) {
  if (lock(folder))
    return 0;
  const FileHandle file(::open((folder + "/" + promise).c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t bytes = 0;
  const auto size = ssize_t(sizeof bytes);
  return file && ::pread(file.number(), &bytes, sizeof bytes, 0) == size ? bytes : 0;
}

/// Checks a peer's announcement, whose names become paths here, and returns the bytes of all files.
std::uint64_t check(const messages::SendModel& what) {
  check_peer(models::Digest::is_hex(what.identity), "a model has no such name");
  check_peer(!what.files.empty() && what.files.size() <= limits::model_files_max,
             "a model has no such count of files");
  std::set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const messages::ModelFile& file : what.files) {
    check_peer(models::is_checkpoint_file(file.name) && names.insert(file.name).second,
               "a model's file has no such name");
    check_peer(models::Digest::is_hex(file.sha256), "a file has no such hash");
    check_peer(file.size > 0 && file.size <= limits::model_file_bytes_max,
               "a file has no such size");
    bytes += file.size;
  }
  return bytes;
}

std::uint64_t free_bytes(const std::string& folder) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) == 0 ? std::uint64_t(disk.f_bavail) * disk.f_frsize : 0;
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", double(bytes) / 1e6);
}

} // namespace

Result<std::shared_ptr<ModelCache>> ModelCache::open(const std::string& folder,
                                                     std::uint64_t bytes_max) {
  for (const char* part : {arriving, whole}) {
    std::error_code failed;
    fs::create_directories(folder + part, failed);
    if (failed || ::access((folder + part).c_str(), W_OK) != 0)
      return fail(ErrorCode::invalid_argument, "cannot keep models in " + folder,
                  "give a folder where this user may write with --model-cache");
  }
  return std::shared_ptr<ModelCache>(new ModelCache(folder, bytes_max));
}

std::optional<std::string> ModelCache::find(const std::string& identity) const {
  const std::string folder = folder_ + whole + identity;
  std::error_code ignored;
  if (models::Digest::is_hex(identity) && fs::is_directory(folder, ignored))
    return folder;
  return std::nullopt;
}

Result<std::unique_ptr<ArrivingModel>> ModelCache::begin(const messages::SendModel& what) {
  const std::uint64_t bytes = check(what);
  return take_folder(what).and_then([&](std::unique_ptr<ArrivingModel>&& arrival) {
    return arrival->look()
        .and_then([&] {
          const FileHandle alone = lock_cache(folder_);
          return make_room(bytes, arrival->folder()).and_then([&] {
            return write_promise(arrival->lock_, bytes);
          });
        })
        .map([&] { return std::move(arrival); });
  });
}

/// A promise that was made to this model before is void.
Result<std::unique_ptr<ArrivingModel>>
ModelCache::take_folder(const messages::SendModel& what) const {
  const FileHandle alone = lock_cache(folder_);
  const std::string folder = folder_ + arriving + what.identity;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!alone || failed)
    return cannot_write();
  FileHandle held = lock(folder);
  if (!held)
    return fail(ErrorCode::overloaded, "another engine sends this model to the node",
                "wait for it");
  return write_promise(held, 0).map([&] {
    return std::unique_ptr<ArrivingModel>(new ArrivingModel(folder_, what, std::move(held)));
  });
}

/// Makes room for a model. bytes: of all its files. own: its folder, with the part that has arrived
/// already.
Result<void> ModelCache::make_room(std::uint64_t bytes, const std::string& own) const {
  const std::uint64_t wanted = bytes - std::min(bytes, bytes_in(own));
  const auto promised = [&] { return promised_bytes(own); };
  const auto fits = [&] { return kept_bytes() + promised() + wanted <= bytes_max_; };
  const auto has_disk = [&] {
    return free_bytes(folder_) >= promised() + wanted + limits::disk_left_bytes;
  };
  if (!fits() || !has_disk())
    drop_abandoned();
  if (!fits())
    return fail(
        ErrorCode::out_of_memory,
        fmt::format("the node keeps {} of models at most, has {}, gets {} from other engines and "
                    "would get {} more",
                    megabytes(bytes_max_), megabytes(kept_bytes()), megabytes(promised()),
                    megabytes(wanted)),
        "delete models in its folder (--model-cache there), or give it more with "
        "--accept-models");
  if (!has_disk())
    return fail(ErrorCode::out_of_memory,
                fmt::format("the node's disk has {} left, of which other engines' models will take "
                            "{}, and the model's files are {}",
                            megabytes(free_bytes(folder_)), megabytes(promised()),
                            megabytes(wanted)),
                "make room there, or give the node another folder with --model-cache");
  return {};
}

/// Returns the bytes that arriving models will still take.
std::uint64_t ModelCache::promised_bytes(const std::string& but_to) const {
  std::uint64_t bytes = 0;
  for (const fs::path& folder : models::sorted_entries(folder_ + arriving))
    if (folder != but_to) {
      const std::uint64_t all = read_promise(folder.string());
      bytes += all - std::min(all, bytes_in(folder.string()));
    }
  return bytes;
}

/// Removes arriving models that nobody is sending.
void ModelCache::drop_abandoned() const {
  std::error_code ignored;
  for (const fs::path& folder : models::sorted_entries(folder_ + arriving))
    if (const FileHandle held = lock(folder.string()))
      fs::remove_all(folder, ignored);
}

void ModelCache::drop(const std::string& identity) {
  const FileHandle alone = lock_cache(folder_);
  std::error_code ignored;
  if (const auto folder = find(identity))
    fs::remove_all(*folder, ignored);
}

FileHandle lock_cache(const std::string& cache) {
  FileHandle file(::open((cache + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  while (file && ::flock(file.number(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return file;
}

std::uint64_t ModelCache::kept_bytes() const {
  return bytes_in(folder_);
}

std::string default_model_cache() {
  const auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string cache = from("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/paceline/models";
  const std::string home = from("HOME");
  return (home.empty() ? "/var/tmp" : home + "/.cache") + "/paceline/models";
}

} // namespace paceline::nodes
