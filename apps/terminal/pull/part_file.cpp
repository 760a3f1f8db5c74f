#include "apps/terminal/pull/part_file.hpp"

#include "base/file.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace paceline::apps::pull {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t chunk_bytes = std::size_t(1) << 20;

} // namespace

PartFile::PartFile(fs::path place, HubFile file, Watch watch)
    : place_(std::move(place)), part_(place_.string() + ".incomplete"), file_(std::move(file)),
      watch_(std::move(watch)) {
  start_digest();
}

PartFile::~PartFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Result<std::unique_ptr<PartFile>> PartFile::open(const fs::path& folder, HubFile file,
                                                 const std::stop_token& stop, Watch watch) {
  const std::string name = file.name();
  std::unique_ptr<PartFile> part(new PartFile(folder / name, std::move(file), std::move(watch)));
  return part->open_file().and_then([&] { return part->read_present(stop); }).map([&] {
    return std::move(part);
  });
}

tl::unexpected<Error> PartFile::cannot_write(int error_number) const {
  return fail(ErrorCode::unavailable,
              fmt::format("cannot write {} ({})", text::shown_path(part_.string()),
                          std::strerror(error_number)),
              "check the free space and the permissions there, or set PACELINE_MODELS to another "
              "folder; what has arrived is kept");
}

/// A whole file of an earlier run may be of another revision: it is a part again until it is
/// checked.
Result<void> PartFile::open_file() {
  std::error_code ignored;
  if (!fs::exists(part_, ignored) && fs::exists(place_, ignored))
    fs::rename(place_, part_, ignored);
  descriptor_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0)
    return cannot_write(errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && std::uint64_t(status.st_size) > file_.size)
    return begin(0);
  return {};
}

void PartFile::start_digest() {
  using enum models::Digest::Algorithm;
  digest_.emplace(file_.is_sha256 ? sha256 : sha1);
  if (!file_.is_sha256) // As git does.
    digest_->add(std::string_view(fmt::format("blob {}{}", file_.size, '\0')));
}

Result<void> PartFile::read_present(const std::stop_token& stop) {
  std::vector<char> chunk(chunk_bytes);
  for (;;) {
    if (stop.stop_requested())
      return fail(ErrorCode::cancelled, "interrupted: what has arrived is kept",
                  "the same command goes on from there");
    const ssize_t count = ::read(descriptor_, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot_write(errno);
    if (count == 0)
      return {};
    digest_->add({chunk.data(), std::size_t(count)});
    have_ += std::uint64_t(count);
    watch_(have_);
  }
}

Result<void> PartFile::begin(std::uint64_t offset) {
  if (offset == have_ && offset > 0)
    return {};
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) < 0)
    return cannot_write(errno);
  have_ = 0;
  start_digest();
  return {};
}

Result<void> PartFile::take(std::string_view bytes) {
  if (bytes.size() > file_.size - have_)
    return fail(ErrorCode::corrupt,
                fmt::format("the hub sends more of {} than it lists", text::shown_path(file_.path)),
                "the model may be changing: try again");
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot_write(errno);
    digest_->add(bytes.substr(0, std::size_t(count)));
    bytes.remove_prefix(std::size_t(count));
    have_ += std::uint64_t(count);
  }
  watch_(have_);
  return {};
}

Result<void> PartFile::settle() {
  if (digest_->hex() != file_.digest) {
    std::error_code ignored;
    fs::remove(part_, ignored);
    return fail(ErrorCode::corrupt,
                fmt::format("{} came otherwise than the hub's digest says, and was deleted",
                            text::shown_path(file_.path)),
                "try again, with another network or HF_ENDPOINT if it happens again");
  }
  if (::fdatasync(descriptor_) != 0) // Its name must not outlive its content when the power fails.
    return cannot_write(errno);
  return base::move_to_new(part_.string(), place_.string());
}

} // namespace paceline::apps::pull
