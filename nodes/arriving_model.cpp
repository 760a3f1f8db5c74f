// Writing the files of an arriving model. They have other names at first, and nobody sees them in
// the cache until all of them are what was announced.
#include "models/checkpoint/files.hpp"
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "nodes/model_cache.hpp"
#include "nodes/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <unistd.h>
#include <utility>

namespace paceline::nodes {
namespace fs = std::filesystem;

namespace {

tl::unexpected<Error> cannot_write(int why) {
  if (why == ENOSPC || why == EDQUOT)
    return fail(ErrorCode::out_of_memory, "the node's disk is full",
                "make room there, or give the node another folder with --model-cache");
  return fail(ErrorCode::unavailable,
              fmt::format("the node cannot write the model's files ({})", std::strerror(why)),
              "look after its --model-cache");
}

/// Adds the content of a file, at most `size` bytes. False: it cannot be read.
bool add_file(models::Digest& digest, int file, std::uint64_t size) {
  std::string buffer(std::size_t(limits::model_part_bytes), '\0');
  while (size > 0) {
    const auto count = ::read(file, buffer.data(), std::min<std::uint64_t>(buffer.size(), size));
    if (count <= 0)
      return false;
    digest.add({buffer.data(), std::size_t(count)});
    size -= std::uint64_t(count);
  }
  return true;
}

/// Writes a folder's names to disk, so that they outlive a loss of power.
void sync_folder(const std::string& folder) {
  if (const FileHandle opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)})
    ::fsync(opened.number());
}

} // namespace

FileHandle::FileHandle(FileHandle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

FileHandle::~FileHandle() {
  if (number_ >= 0)
    ::close(number_);
}

ArrivingModel::ArrivingModel(std::string cache, messages::SendModel what, FileHandle lock)
    : cache_(std::move(cache)), what_(std::move(what)), lock_(std::move(lock)),
      present_(what_.files.size(), 0) {}

std::string ArrivingModel::folder() const {
  return cache_ + "/arriving/" + what_.identity;
}

/// Returns a path that names the content: a file of the same name with other content has another.
std::string ArrivingModel::path_of(std::size_t file) const {
  return folder() + "/" + what_.files[file].name + "." + what_.files[file].sha256;
}

/// Finds the files that an earlier connection has left.
Result<void> ArrivingModel::look() {
  std::error_code ignored;
  fs::remove_all(folder() + "/model", ignored);
  drop_others();
  for (; current_ < what_.files.size(); ++current_) {
    if (auto opened = open_file(); !opened)
      return opened;
    if (!is_whole())
      break;
    if (digest_.hex() != what_.files[current_].sha256) {
      fs::remove(path_of(current_), ignored);
      return open_file();
    }
  }
  return {};
}

/// Removes files of another announcement, which are of no use and would count among the bytes of
/// this one that have arrived.
void ArrivingModel::drop_others() const {
  std::set<std::string> own;
  for (std::size_t i = 0; i < what_.files.size(); ++i)
    own.insert(path_of(i));
  std::error_code ignored;
  for (const fs::path& path : models::sorted_entries(folder()))
    if (path.has_extension() && !own.contains(path.string()))
      fs::remove(path, ignored);
}

bool ArrivingModel::is_whole() const {
  return present_[current_] == what_.files[current_].size;
}

/// Opens the current file at its end, with the digest of the bytes that are there.
Result<void> ArrivingModel::open_file() {
  to_ = FileHandle(::open(path_of(current_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!to_)
    return cannot_write(errno);
  digest_ = models::Digest();
  std::error_code failed;
  present_[current_] = fs::file_size(path_of(current_), failed);
  const bool usable = !failed && present_[current_] <= what_.files[current_].size &&
                      add_file(digest_, to_.number(), present_[current_]);
  if (usable)
    return {};
  if (::ftruncate(to_.number(), 0) != 0 || ::lseek(to_.number(), 0, SEEK_SET) != 0)
    return cannot_write(errno);
  digest_ = models::Digest();
  present_[current_] = 0;
  return {};
}

Result<bool> ArrivingModel::take(const messages::ModelPart& part) {
  check_peer(current_ < what_.files.size() && part.file == current_ &&
                 part.offset == present_[current_],
             "a part does not go on behind those before");
  const std::uint64_t left = what_.files[current_].size - present_[current_];
  check_peer(!part.bytes.empty() && part.bytes.size() <= limits::model_part_bytes,
             "a part is of no such size");
  check_peer(part.bytes.size() <= left, "a file is longer than announced");
  if (auto written = write(part.bytes); !written)
    return tl::unexpected(written.error());
  if (!is_whole())
    return false;
  if (auto ended = end_file(); !ended)
    return tl::unexpected(ended.error());
  if (++current_ == what_.files.size())
    return store();
  return open_file().map([] { return false; });
}

Result<bool> ArrivingModel::settle() {
  return current_ == what_.files.size() ? store() : Result<bool>(false);
}

/// Writes to the current file. If the disk is full, the model's files are removed, since others
/// need the room, too.
Result<void> ArrivingModel::write(std::string_view bytes) {
  digest_.add(bytes);
  present_[current_] += bytes.size();
  while (!bytes.empty()) {
    const auto count = ::write(to_.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      const int why = errno;
      std::error_code ignored;
      fs::remove_all(folder(), ignored);
      return cannot_write(why);
    }
    bytes.remove_prefix(std::size_t(count));
  }
  return {};
}

Result<void> ArrivingModel::end_file() {
  const messages::ModelFile& file = what_.files[current_];
  if (digest_.hex() == file.sha256)
    return ::fsync(to_.number()) == 0 ? Result<void>() : cannot_write(errno);
  std::error_code ignored;
  fs::remove(path_of(current_), ignored);
  return fail(ErrorCode::corrupt,
              fmt::format("{} arrived at the node with another hash than was announced", file.name),
              "send it again; if that happens again, look after the machines' memory and disks");
}

/// Moves the model into the cache when all files are whole. A model of this name that somebody else
/// has stored meanwhile is as good.
Result<bool> ArrivingModel::store() {
  const std::string model = folder() + "/model";
  to_ = FileHandle();
  std::error_code failed;
  fs::create_directory(model, failed);
  for (std::size_t i = 0; !failed && i < what_.files.size(); ++i)
    fs::rename(path_of(i), model + "/" + what_.files[i].name, failed);
  if (failed)
    return cannot_write(failed.value());
  const auto identity = models::checkpoint_identity(model);
  if (identity != what_.identity) {
    fs::remove_all(folder(), failed);
    return fail(ErrorCode::corrupt,
                identity ? "the files that were sent are another model's"
                         : identity.error().message,
                "send a checkpoint that loads on the engine's machine");
  }
  sync_folder(model);
  return move_to_models().map([] { return true; });
}

/// Renames the folder under the cache's lock, so that somebody who admits another model meanwhile
/// counts these files once.
Result<void> ArrivingModel::move_to_models() const {
  const FileHandle alone = lock_cache(cache_);
  const std::string place = cache_ + "/models/" + what_.identity;
  std::error_code failed;
  fs::rename(folder() + "/model", place, failed);
  if (failed && !fs::is_directory(place))
    return cannot_write(failed.value());
  sync_folder(cache_ + "/models");
  fs::remove_all(folder(), failed);
  return {};
}

} // namespace paceline::nodes
